//! Clusters: blocks that run together, read each other's shared memory, arrive at each other's barriers and share copies.

use crate::common::parse;
use ptx_interpreter::{Fault, FaultKind, Launch, Memory, RunOptions, TensorMap, run};

/// A kernel `k(map, out)` in clusters of four blocks, run with a grid of eight blocks of 32 threads, whose word of `out` is
/// at `%at`; with a word `own` and a barrier `full` of `arrivals` in each block.
fn launch(arrivals: u32, body: &str) -> Result<Vec<u32>, Box<Fault>> {
    let text = format!(
        ".version 8.4
.target sm_90a
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out)
.explicitcluster
.reqnctapercluster 4, 1, 1
{{
    .reg .b64 %out, %at, %map;
    .reg .b32 %t, %rank, %own, %full, %tile, %r<16>;
    .reg .b16 %h<4>;
    .reg .pred %p<8>;
    .shared .align 128 .b8 tile[256];
    .shared .align 4 .b8 own[4];
    .shared .align 8 .b8 full[8];
    ld.param.u64 %out, [out];
    mov.b64 %map, map;
    mov.u32 %t, %tid.x;
    mov.u32 %rank, %cluster_ctarank;
    mov.u32 %own, own;
    mov.u32 %full, full;
    mov.u32 %tile, tile;
    mov.u32 %r0, %ctaid.x;
    mad.lo.u32 %r1, %r0, 32, %t;
    mad.wide.u32 %at, %r1, 4, %out;
    setp.eq.u32 %p0, %t, 0;
    @%p0 st.shared.u32 [%own], %r0;
    @%p0 mbarrier.init.shared::cta.b64 [%full], {arrivals};
    fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    mov.u32 %r2, 0;
    {body}
    st.global.u32 [%at], %r2;
    ret;
}}
"
    );
    let module = parse(&text);
    assert_eq!(module.kernel("k").expect("k").cluster(), [4, 1, 1]);
    let mut memory = Memory::new();
    let words: Vec<u8> = (100..164u32).flat_map(u32::to_le_bytes).collect();
    let (dims, strides_bytes, box_dims) = (vec![16, 4], vec![64], vec![16, 4]);
    let address = memory.alloc_from(&words);
    let map = TensorMap { address, data_type: 2, dims, strides_bytes, box_dims, pixels: None, swizzle: 0 };
    let out = memory.alloc(1024, 256);
    let mut params = map.encode().expect("a map").to_vec();
    params.extend(out.to_le_bytes());
    let dynamic_shared_bytes = if body.contains("dynamic") { 64 } else { 0 };
    let launch = Launch { grid: [8, 1, 1], block: [32, 1, 1], params, dynamic_shared_bytes };
    run(module.kernel("k").expect("k"), &mut memory, &launch, &RunOptions::strict())?;
    let bytes = memory.read(out, 1024).expect("the results");
    Ok(bytes.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect())
}

const MEET: &str = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;";
const WAIT: &str =
    "{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%full], 0; @!done bra again; }";

#[test]
fn block_reads_and_writes_its_neighbours_shared_memory() {
    // The next block's word, and what the one before stored here.
    let body = format!(
        "add.u32 %r3, %rank, 1; and.b32 %r3, %r3, 3;
         mapa.shared::cluster.u32 %r4, %own, %r3;
         ld.shared::cluster.u32 %r2, [%r4];
         mapa.shared::cluster.u32 %r5, %tile, %r3;
         @%p0 st.shared::cluster.u32 [%r5], %r0;
         {MEET}
         ld.shared.u32 %r6, [%tile];
         mad.lo.u32 %r2, %r2, 100, %r6;"
    );
    let found = launch(1, &body).unwrap_or_else(|fault| panic!("{fault}"));
    for (i, &word) in found.iter().enumerate() {
        let (block, first) = (i as u32 / 32, i as u32 / 128 * 4);
        let (next, before) = (first + (block + 1) % 4, first + (block + 3) % 4);
        assert_eq!(word, next * 100 + before, "block {block}");
    }
}

#[test]
fn address_of_the_dynamic_array_names_its_block() {
    // From bit 24 on, which code that packs addresses must leave away; loads and stores take it as it is.
    let body = "mov.u32 %r3, dynamic;
        @%p0 st.shared.u32 [%r3], 7;
        bar.sync 0;
        ld.shared.u32 %r4, [%r3];
        shr.u32 %r5, %r3, 24;
        mad.lo.u32 %r2, %r5, 100, %r4;";
    let found = launch(1, body).unwrap_or_else(|f| panic!("{f}"));
    let names: Vec<u32> = found.chunks(32).map(|block| block[0]).collect();
    assert_eq!(names, [107, 207, 307, 407, 107, 207, 307, 407]);
    // Another block's is no address of shared::cta.
    let fault = launch(1, "mov.u32 %r3, dynamic; xor.b32 %r3, %r3, 0x3000000; ld.shared.u32 %r2, [%r3];");
    assert!(matches!(fault.expect_err("a fault").kind, FaultKind::OutOfBounds { space: "shared", .. }));
}

#[test]
fn neighbour_that_has_ended_is_not_read() {
    let body = format!(
        "setp.eq.u32 %p1, %rank, 3;
         @!%p1 bra OVER;
         mov.u32 %r3, 0;
         mapa.shared::cluster.u32 %r4, %own, %r3;
         mov.u32 %r5, 0;
     AGAIN:
         add.u32 %r5, %r5, 1;
         setp.lt.u32 %p2, %r5, 100000;
         @%p2 bra AGAIN;
         ld.shared::cluster.u32 %r2, [%r4];
     OVER: {MEET}"
    );
    assert!(launch(1, &body).is_ok());
    let kind = launch(1, &body.replace(MEET, "")).expect_err("a block that is gone").kind;
    assert!(matches!(&kind, FaultKind::Asynchronous(message) if message.contains("has ended")), "{kind}");
}

#[test]
fn blocks_arrive_at_each_others_barriers() {
    // Lanes 0 to 3 of every block arrive at the blocks of that number.
    let body = format!(
        "setp.lt.u32 %p1, %t, 4;
         @!%p1 bra ARRIVED;
         mapa.shared::cluster.u32 %r4, %full, %t;
         mbarrier.arrive.shared::cluster.b64 _, [%r4];
     ARRIVED: {WAIT} mov.u32 %r2, 1; {MEET}"
    );
    assert!(launch(4, &body).unwrap_or_else(|fault| panic!("{fault}")).iter().all(|&word| word == 1));
    let FaultKind::Deadlock(message) = launch(5, &body).expect_err("an arrival is missing").kind else {
        panic!("no deadlock");
    };
    assert!(message.contains("block 3 warp 0") && message.contains("1 of 5 arrivals"), "{message}");
}

#[test]
fn copy_goes_to_all_blocks_of_a_multicast() {
    let load = |blocks: &str| {
        format!(
            "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%full], 256;
             setp.eq.and.u32 %p1, %rank, 2, %p0;
             mov.u16 %h0, {blocks};
             mov.u32 %r3, 0;
             @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%tile], [%map, {{%r3, %r3}}], [%full], %h0;
             {WAIT}
             shl.b32 %r4, %t, 2; add.u32 %r4, %r4, %tile;
             ld.shared.u32 %r2, [%r4];
             {MEET}"
        )
    };
    let found = launch(1, &load("15")).unwrap_or_else(|fault| panic!("{fault}"));
    assert!(found.iter().enumerate().all(|(i, &word)| word as usize == 100 + i % 32));
    let kind = launch(1, &load("7")).expect_err("the last block gets nothing").kind;
    assert!(matches!(&kind, FaultKind::Deadlock(message) if message.contains("256 bytes to come")), "{kind}");
    assert!(matches!(launch(1, &load("16")).expect_err("no such block").kind, FaultKind::Asynchronous(_)));
}
