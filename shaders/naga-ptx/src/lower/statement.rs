//! Statements and control flow.
//!
//! WGSL's control flow is structured, so each construct becomes blocks with one way out, and the place where its paths
//! meet is also where the warp's lanes meet again. A statement that leaves (break, continue, return) ends the block it
//! is in; what follows it there is unreachable and is not written.

use std::rc::Rc;

use naga::{
    AtomicFunction, Block, Expression, GatherMode, Handle, LocalVariable, Span, Statement, SwitchCase, SwitchValue,
};

use super::Lowerer;
use super::function::{Frame, Jumps, Value};
use super::place::Place;
use super::sync::{self, AtomicCall, AtomicOp, Convergence, Gather};
use super::types::NO_GRAPHICS;
use super::uniformity::Left;
use super::unroll;
use crate::error::{Error, Result};
use crate::ir::{Compare, Operand, Terminator, Ty};

/// Whether control reaches the statement after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    On,
    Left,
}

impl<'m> Lowerer<'m> {
    /// Writes the statements of `block`.
    pub(super) fn block(&mut self, frame: &mut Frame<'m>, block: &'m Block) -> Result<Flow> {
        for (statement, span) in block.span_iter() {
            self.b.check_size()?;
            let flow = self.statement(frame, statement, *span);
            if flow.map_err(|error| error.at(*span))? == Flow::Left {
                return Ok(Flow::Left);
            }
        }
        Ok(Flow::On)
    }

    fn statement(&mut self, frame: &mut Frame<'m>, statement: &'m Statement, span: Span) -> Result<Flow> {
        match statement {
            Statement::Emit(range) => {
                for handle in range.clone() {
                    let value = self
                        .evaluate(frame, handle)
                        .map_err(|error| error.at(frame.function.expressions.get_span(handle)).at(span))?;
                    frame.values[handle.index()] = Some(value);
                }
            }
            Statement::Block(inner) => return self.block(frame, inner),
            Statement::If { condition, accept, reject } => return self.choose(frame, *condition, accept, reject),
            Statement::Switch { selector, cases } => return self.switch(frame, *selector, cases),
            Statement::Loop { body, continuing, break_if } => {
                let unrolling = Rc::clone(&frame.unrolling);
                return match unrolling.rounds(frame.function, continuing) {
                    Some((counter, values)) => self.unrolled(frame, body, continuing, counter, values),
                    None => self.repeat(frame, body, continuing, *break_if),
                };
            }
            Statement::Break => {
                let target = frame.loops.last().ok_or_else(|| Error::invalid("a break outside of loops"))?.to_break;
                return self.leave(target);
            }
            Statement::Continue => {
                let target = frame.loops.iter().rev().find_map(|jumps| jumps.to_continue);
                return self.leave(target.ok_or_else(|| Error::invalid("a continue outside of loops"))?);
            }
            Statement::Return { value } => {
                if let (Some(value), Some(result)) = (value, frame.result.clone()) {
                    let leaves = self.leaves(frame, *value)?;
                    for ((&reg, &leaf), described) in result.iter().zip(leaves.iter()).zip(&frame.result_leaves) {
                        self.b.mov_to(described.ty, reg, leaf);
                    }
                }
                return self.leave(frame.exit);
            }
            Statement::Kill => return Err(Error::unsupported("discard", "there are no fragments in a compute shader")),
            Statement::ControlBarrier(flags) => {
                let convergence = self.convergence();
                sync::control_barrier(&mut self.b, self.sync, convergence, *flags);
            }
            Statement::MemoryBarrier(flags) => sync::memory_barrier(&mut self.b, *flags),
            Statement::Store { pointer, value } => self.store(frame, *pointer, *value)?,
            Statement::Atomic { pointer, fun, value, result } => {
                self.atomic(frame, *pointer, fun, *value, *result)?;
            }
            Statement::WorkGroupUniformLoad { pointer, result } => {
                let place = self.place(frame, *pointer)?;
                let inner = self.types.pointee(self.types.resolve(&frame.info[*pointer].ty));
                let inner = inner.ok_or_else(|| Error::invalid("a load through something else than a pointer"))?;
                let leaves = self.types.leaves(&inner)?;
                let values = sync::uniform_load(&mut self.b, |b| Ok(place.load(b, &leaves)))?;
                frame.values[result.index()] = Some(Value::Leaves(values.into()));
            }
            Statement::Call { function, arguments, result } => {
                let value = self.call(frame, *function, arguments)?;
                if let Some(result) = result {
                    frame.values[result.index()] = value;
                }
            }
            Statement::SubgroupBallot { result, predicate } => {
                let predicate = match predicate {
                    Some(predicate) => Some(self.scalar(frame, *predicate)?),
                    None => None,
                };
                let convergence = self.convergence();
                let words = sync::ballot(&mut self.b, self.sync, convergence, predicate);
                frame.values[result.index()] = Some(Value::Leaves(words.to_vec().into()));
            }
            Statement::SubgroupCollectiveOperation { op, collective_op, argument, result } => {
                let (scalar, _) = self.types.shape(self.types.resolve(&frame.info[*argument].ty))?;
                let leaves = self.leaves(frame, *argument)?;
                let convergence = self.convergence();
                let values =
                    sync::collective(&mut self.b, self.sync, convergence, *op, *collective_op, scalar, &leaves)?;
                frame.values[result.index()] = Some(Value::Leaves(values.into()));
            }
            Statement::SubgroupGather { mode, argument, result } => {
                let mode = self.gather_mode(frame, mode)?;
                let (scalar, _) = self.types.shape(self.types.resolve(&frame.info[*argument].ty))?;
                let leaves = self.leaves(frame, *argument)?;
                let convergence = self.convergence();
                let values = sync::gather(&mut self.b, self.sync, convergence, mode, scalar, &leaves)?;
                frame.values[result.index()] = Some(Value::Leaves(values.into()));
            }
            Statement::CooperativeStore { target, data } => {
                let value = self.coop(frame, *target)?;
                let place = self.coop_place(frame, data)?;
                sync::coop_store(&mut self.b, self.sync, &value, place)?;
            }
            Statement::ImageStore { .. } | Statement::ImageAtomic { .. } => {
                return Err(Error::unsupported("a texture", NO_GRAPHICS));
            }
            Statement::RayQuery { .. } | Statement::RayPipelineFunction(_) => {
                return Err(Error::unsupported("ray tracing", "there is none in a CUDA kernel"));
            }
        }
        Ok(Flow::On)
    }

    fn leave(&mut self, target: crate::ir::BlockId) -> Result<Flow> {
        let unreachable = self.b.block();
        self.b.end(Terminator::Jump(target), unreachable);
        Ok(Flow::Left)
    }

    fn convergence(&self) -> Convergence {
        if self.partial { Convergence::Partial } else { Convergence::Uniform }
    }

    fn choose(
        &mut self,
        frame: &mut Frame<'m>,
        condition: Handle<Expression>,
        accept: &'m Block,
        reject: &'m Block,
    ) -> Result<Flow> {
        let value = self.scalar(frame, condition)?;
        if let Some(known) = value.imm() {
            return self.block(frame, if known != 0 { accept } else { reject });
        }
        let partial = self.partial;
        let divergent = !frame.uniformity.is_uniform(condition);
        self.partial |= divergent;
        let (yes, no, after) = (self.b.block(), self.b.block(), self.b.block());
        let mut flows = [Flow::On, Flow::On];
        if reject.is_empty() {
            self.b.branch(value, yes, after, yes);
            flows[0] = self.block(frame, accept)?;
        } else if accept.is_empty() {
            self.b.branch(value, after, no, no);
            flows[1] = self.block(frame, reject)?;
        } else {
            self.b.branch(value, yes, no, yes);
            flows[0] = self.block(frame, accept)?;
            self.b.end(Terminator::Jump(after), no);
            flows[1] = self.block(frame, reject)?;
        }
        self.b.end(Terminator::Jump(after), after);
        let left = frame.uniformity.left(accept, !divergent).or(frame.uniformity.left(reject, !divergent));
        self.partial = partial || left.anyhow();
        Ok(if flows == [Flow::Left, Flow::Left] { Flow::Left } else { Flow::On })
    }

    fn switch(&mut self, frame: &mut Frame<'m>, selector: Handle<Expression>, cases: &'m [SwitchCase]) -> Result<Flow> {
        let value = self.scalar(frame, selector)?;
        let partial = self.partial;
        let divergent = !frame.uniformity.is_uniform(selector);
        self.partial |= divergent;
        let labels: Vec<_> = cases.iter().map(|_| self.b.block()).collect();
        let after = self.b.block();
        let mut default = after;
        for (case, &label) in cases.iter().zip(&labels) {
            let wanted = match case.value {
                SwitchValue::I32(wanted) => Operand::i32(wanted),
                SwitchValue::U32(wanted) => Operand::u32(wanted),
                SwitchValue::Default => {
                    default = label;
                    continue;
                }
            };
            let next = self.b.block();
            let here = self.b.setp(Compare::Eq, Ty::U32, value, wanted);
            self.b.branch(here, label, next, next);
        }
        let first = labels.first().copied().unwrap_or(after);
        self.b.end(Terminator::Jump(default), first);
        frame.loops.push(Jumps { to_break: after, to_continue: None });
        let mut left = Left::default();
        for (position, case) in cases.iter().enumerate() {
            self.block(frame, &case.body)?;
            let next = labels.get(position + 1).copied().unwrap_or(after);
            let target = if case.fall_through { next } else { after };
            self.b.end(Terminator::Jump(target), next);
            left = left.or(frame.uniformity.left(&case.body, !divergent));
        }
        if cases.is_empty() {
            self.b.end(Terminator::Jump(after), after);
        }
        frame.loops.pop();
        self.partial = partial || left.by_continue || left.by_return;
        Ok(Flow::On)
    }

    fn repeat(
        &mut self,
        frame: &mut Frame<'m>,
        body: &'m Block,
        continuing: &'m Block,
        break_if: Option<Handle<Expression>>,
    ) -> Result<Flow> {
        let partial = self.partial;
        let uniform = frame.uniformity.rounds_uniform(body, break_if);
        self.partial |= !uniform;
        let (head, next, after) = (self.b.block(), self.b.block(), self.b.block());
        let rounds = self.options.loop_limit.map(|limit| (self.b.copy(Ty::U32, Operand::Imm(0)), limit));
        self.b.end(Terminator::Jump(head), head);
        if let Some((count, limit)) = rounds {
            let inside = self.b.block();
            let over = self.b.setp(Compare::Ge, Ty::U32, count.into(), Operand::u32(limit));
            self.b.branch(over, after, inside, inside);
            let more = self.b.add(Ty::U32, count.into(), Operand::u32(1));
            self.b.mov_to(Ty::U32, count, more);
        }
        frame.loops.push(Jumps { to_break: after, to_continue: Some(next) });
        self.block(frame, body)?;
        self.b.end(Terminator::Jump(next), next);
        self.block(frame, continuing)?;
        match break_if {
            Some(condition) => {
                let condition = self.scalar(frame, condition)?;
                self.b.branch(condition, after, head, after);
            }
            None => self.b.end(Terminator::Jump(head), after),
        }
        frame.loops.pop();
        self.partial = partial || frame.uniformity.left(body, uniform).by_return;
        Ok(Flow::On)
    }

    /// A loop written out: the counter is a constant in each round.
    fn unrolled(
        &mut self,
        frame: &mut Frame<'m>,
        body: &'m Block,
        continuing: &'m Block,
        counter: Handle<LocalVariable>,
        values: &[u32],
    ) -> Result<Flow> {
        let partial = self.partial;
        let uniform = frame.uniformity.rounds_uniform(body, None);
        self.partial |= !uniform;
        let after = self.b.block();
        let most = self.options.loop_limit.map_or(usize::MAX, |limit| limit as usize);
        for &value in values.iter().take(most) {
            frame.known.insert(counter, value);
            let next = has_continue(body).then(|| self.b.block());
            frame.loops.push(Jumps { to_break: after, to_continue: next });
            let flow = self.block(frame, body)?;
            if let Some(next) = next {
                self.b.end(Terminator::Jump(next), next);
            } else if flow == Flow::Left {
                frame.loops.pop();
                break;
            }
            self.block(frame, continuing)?;
            frame.loops.pop();
            self.b.check_size()?;
        }
        frame.known.remove(&counter);
        self.b.end(Terminator::Jump(after), after);
        self.partial = partial || frame.uniformity.left(body, uniform).by_return;
        Ok(Flow::On)
    }

    fn atomic(
        &mut self,
        frame: &mut Frame<'m>,
        pointer: Handle<Expression>,
        fun: &AtomicFunction,
        value: Handle<Expression>,
        result: Option<Handle<Expression>>,
    ) -> Result<()> {
        let Place::Memory(memory) = self.place(frame, pointer)? else {
            return Err(Error::invalid("an atomic that is no storage or workgroup variable"));
        };
        let inner = self.types.pointee(self.types.resolve(&frame.info[pointer].ty));
        let Some(naga::TypeInner::Atomic(scalar)) = inner else {
            return Err(Error::invalid("an atomic operation on no atomic"));
        };
        let op = match fun {
            AtomicFunction::Add => AtomicOp::Add,
            AtomicFunction::Subtract => AtomicOp::Subtract,
            AtomicFunction::And => AtomicOp::And,
            AtomicFunction::ExclusiveOr => AtomicOp::ExclusiveOr,
            AtomicFunction::InclusiveOr => AtomicOp::InclusiveOr,
            AtomicFunction::Min => AtomicOp::Min,
            AtomicFunction::Max => AtomicOp::Max,
            AtomicFunction::Exchange { compare: None } => AtomicOp::Exchange,
            AtomicFunction::Exchange { compare: Some(compare) } => {
                AtomicOp::CompareExchange { compare: self.scalar(frame, *compare)? }
            }
        };
        let value = self.scalar(frame, value)?;
        let used = result.is_some_and(|r| frame.info[r].ref_count > 0);
        let wanted = if used { sync::Use::Read } else { sync::Use::Ignored };
        let (space, address) = (memory.space, memory.address);
        let outcome = sync::atomic(&mut self.b, AtomicCall { op, scalar, space, address, value, result: wanted })?;
        if let Some(result) = result {
            let leaves: Vec<Operand> = [Some(outcome.old), outcome.exchanged].into_iter().flatten().collect();
            frame.values[result.index()] = Some(Value::Leaves(leaves.into()));
        }
        Ok(())
    }

    fn gather_mode(&mut self, frame: &mut Frame<'m>, mode: &GatherMode) -> Result<Gather> {
        Ok(match mode {
            GatherMode::BroadcastFirst => Gather::BroadcastFirst,
            GatherMode::Broadcast(lane) => Gather::Broadcast(self.scalar(frame, *lane)?),
            GatherMode::Shuffle(lane) => Gather::Shuffle(self.scalar(frame, *lane)?),
            GatherMode::ShuffleDown(delta) => Gather::ShuffleDown(self.scalar(frame, *delta)?),
            GatherMode::ShuffleUp(delta) => Gather::ShuffleUp(self.scalar(frame, *delta)?),
            GatherMode::ShuffleXor(mask) => Gather::ShuffleXor(self.scalar(frame, *mask)?),
            GatherMode::QuadBroadcast(lane) => Gather::QuadBroadcast(self.scalar(frame, *lane)?),
            GatherMode::QuadSwap(direction) => Gather::QuadSwap(*direction),
        })
    }
}

/// Whether a `continue` in `block` goes to the loop that `block` is the body of.
fn has_continue(block: &Block) -> bool {
    block.iter().any(|statement| match statement {
        Statement::Continue => true,
        Statement::Loop { .. } => false,
        other => {
            let mut found = false;
            unroll::children(other, &mut |child| found |= has_continue(child));
            found
        }
    })
}
