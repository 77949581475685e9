import torch, statistics
def t(f, n=10):
    for _ in range(3): f()
    out=[]
    for _ in range(5):
        a,b=torch.cuda.Event(enable_timing=True),torch.cuda.Event(enable_timing=True)
        a.record()
        for _ in range(n): f()
        b.record(); torch.cuda.synchronize(); out.append(a.elapsed_time(b)/n)
    return statistics.median(out)
d='cuda'
print(torch.__version__, torch.cuda.get_device_name())
x=torch.rand(1<<26,device=d); print('sort 2^26 ms',t(lambda: torch.sort(x),3))
x=torch.randn(1<<28,device=d); print('cumsum 2^28 ms',t(lambda: torch.cumsum(x,0))); y=torch.empty_like(x); print('copy 2^28 ms',t(lambda: y.copy_(x)))
print('histc 2^28 ms',t(lambda: torch.histc(x,256,-4,4)))
print('normal 2^28 ms',t(lambda: y.normal_()))
del x,y
x=torch.randn(64,1<<20,device=d); print('topk64 ms',t(lambda: torch.topk(x,64,1)))
r=torch.randn(1<<18,256,device=d); i=torch.randint(0,1<<18,(1<<18,),device=d)
print('gather ms',t(lambda: r[i])); z=torch.zeros_like(r)
print('zeros and index_add ms',t(lambda: torch.zeros_like(r).index_add_(0,i,r)))
