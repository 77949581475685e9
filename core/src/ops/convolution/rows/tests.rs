//! Convolutions by rows against those that gather windows themselves.

use super::super::gradients::tests::Draw;
use super::lines::Line;
use super::*;
use crate::ops::GraphOp;
use crate::{Device, Op, Tensor};

/// All three as products of rows give what they give themselves, whatever images are taken at a time.
#[test]
fn rows_give_what_windows_do() {
    let device = Device::cpu();
    let mut draw = Draw(11);
    let (mut several, mut turned, mut lines) = (0, 0, 0);
    for _ in 0..120 {
        let geometry = Geometry { groups: 1, batch: 5, ..draw.geometry() };
        let geometry = Geometry { filters: 2 * geometry.filters, ..geometry };
        let [x, w, y] = [geometry.input_shape(), geometry.weights_shape(), geometry.output_shape()]
            .map(|shape| draw.tensor(&device, shape.unwrap()));
        let forward = Convolution::of(geometry, x.spec(), w.spec()).unwrap();
        let input = ConvolutionInput::of(geometry, y.spec(), w.spec()).unwrap();
        let weights = ConvolutionWeights::of(geometry, y.spec(), x.spec()).unwrap();
        for rows_bytes in [1, 2000, u64::MAX] {
            let gathering = Gathering { rows_bytes, line: Line::of(&geometry, DType::F64) };
            lines += usize::from(gathering.line.is_some_and(|line| line.width > line.terms));
            let graph = forward_of("rows", forward.inputs(), &forward, Scales::Absent, gathering).unwrap();
            several += usize::from(graph.steps.iter().filter(|step| step.op.is::<Matmul>()).count() > 1);
            let mut ways: Vec<(Op, Graph, [&Tensor; 2])> = vec![(forward.clone().into(), graph, [&x, &w])];
            ways.push((weights.clone().into(), weights.rows(gathering).unwrap(), [&y, &x]));
            if input.has_phases() {
                turned += 1;
                ways.push((input.clone().into(), input.rows(rows_bytes).unwrap(), [&y, &w]));
            }
            for (op, graph, operands) in ways {
                let outputs = op.outputs().iter().map(|output| output.spec).collect();
                let (rows, used) = GraphOp::new("rows", graph, op.inputs(), outputs);
                // Windows may have no tap on any input: then all is zero, of neither operand.
                let of: Vec<&Tensor> = used.iter().map(|&at| operands[at]).collect();
                assert!(used == [0, 1] || used.is_empty() && op.is::<ConvolutionInput>());
                let name = op.name();
                let [want, found] = [(op, &operands[..]), (rows.into(), &of)].map(|(op, operands)| {
                    Tensor::apply(&device, op, operands).unwrap().swap_remove(0).to_vec::<f64>().unwrap()
                });
                let is_near = want.iter().zip(&found).all(|(a, b)| (a - b).abs() < 1e-11);
                assert!(is_near && want.len() == found.len(), "{name} of {geometry:?}");
            }
        }
    }
    assert!(several > 100 && turned > 100 && lines > 30, "{several} {turned} {lines}");
}
