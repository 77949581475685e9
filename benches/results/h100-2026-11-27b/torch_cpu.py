"""A step of training on the CPU in f32, as `polywarp bench --device cpu --suite networks` takes it."""
import time, torch, torch_train as T
print("torch", torch.__version__, "threads", torch.get_num_threads())
for net, layout in (("bert-base", None), ("resnet50", None), ("resnet50", torch.channels_last)):
    model, kind, size, classes = T.network(net, dropout=True)
    model.train()
    if layout: model = model.to(memory_format=layout)
    x, y = T.batches(kind, size, classes, 2, 12)
    if layout: x = [b.contiguous(memory_format=layout) for b in x]
    step, took = T.Step(model, kind, "f32", "cpu"), []
    for i in range(12):
        began = time.perf_counter(); step(x[i], y[i]).item(); took.append(time.perf_counter() - began)
    took = sorted(took[2:])
    print(net, "channels last" if layout else "", "b2: step %.1f ms (%.1f to %.1f), %.2f a second" % (took[5]*1e3, took[0]*1e3, took[-1]*1e3, 2/took[5]), flush=True)
