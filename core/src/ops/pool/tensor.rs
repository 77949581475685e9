//! Pools as methods of tensors.

use super::super::convolution::geometry::pixel_pitch;
use super::{Divisor, Pool, PoolFn, PoolGeometry, PoolOptions};
use crate::{Error, Result, Tensor};

fn pooled(x: &Tensor, function: PoolFn, geometry: PoolGeometry) -> Result<Tensor> {
    let x = if pixel_pitch(&x.spec()).is_some() { x.clone() } else { x.contiguous()? };
    let op = Pool::new(function, x.spec(), geometry)?;
    Ok(Tensor::apply(x.device(), op, &[&x])?.swap_remove(0))
}

fn parts(op: &'static str, x: &Tensor, outputs: &[u64]) -> Result<PoolGeometry> {
    if outputs.is_empty() {
        let reason = format!("{op} into no extents; give one for all spatial axes, or one for each");
        return Err(Error::InvalidArgument { what: "outputs", reason });
    }
    PoolGeometry::adaptive(op, x.shape(), outputs)
}

impl Tensor {
    /// The largest element of each window of this tensor, [batch, spatial..., channels] of one to three spatial axes: [batch, outputs...,
    /// channels]. The gradient goes to the first of the largest elements in row-major order; NaN wins.
    ///
    /// ```
    /// use polywarp_core::ops::PoolOptions;
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1.0f32, 2.0, 5.0, 4.0, 3.0], [1, 5, 1])?;
    /// assert_eq!(x.max_pool(&PoolOptions::window(2))?.to_vec::<f32>()?, [2.0, 5.0]);
    /// assert_eq!(x.max_pool(&PoolOptions::window(2).ceil_mode())?.to_vec::<f32>()?, [2.0, 5.0, 3.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`PoolGeometry::new`] and [`Pool::new`]; memory errors of the device.
    pub fn max_pool(&self, options: &PoolOptions) -> Result<Tensor> {
        pooled(self, PoolFn::Max, PoolGeometry::new("max_pool", self.shape(), options)?)
    }

    /// The average of each window of this tensor, [batch, spatial..., channels] of one to three spatial axes: [batch, outputs..., channels].
    ///
    /// ```
    /// use polywarp_core::ops::{Divisor, PoolOptions};
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[2.0f32, 4.0, 6.0], [1, 3, 1])?;
    /// let options = PoolOptions::window(2).padding(1);
    /// assert_eq!(x.avg_pool(&options)?.to_vec::<f32>()?, [1.0, 5.0]);
    /// assert_eq!(x.avg_pool(&options.divisor(Divisor::Inside))?.to_vec::<f32>()?, [2.0, 5.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::max_pool`]; [`Error::InvalidArgument`] for a divisor of 0.
    pub fn avg_pool(&self, options: &PoolOptions) -> Result<Tensor> {
        pooled(self, PoolFn::Average(options.divisor), PoolGeometry::new("avg_pool", self.shape(), options)?)
    }

    /// The averages of as many parts of each spatial axis as `outputs` says, for all axes or for each: [batch, outputs..., channels]. Part o of
    /// n reads from `floor(o in / n)` to before `ceil((o + 1) in / n)`; one part is the global average.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0, 5.0], [1, 5, 1])?;
    /// assert_eq!(x.adaptive_avg_pool(&[1])?.to_vec::<f32>()?, [3.0]);
    /// assert_eq!(x.adaptive_avg_pool(&[2])?.to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`PoolGeometry::adaptive`]; [`Error::InvalidArgument`] where `outputs` says nothing.
    pub fn adaptive_avg_pool(&self, outputs: &[u64]) -> Result<Tensor> {
        let parts = parts("adaptive_avg_pool", self, outputs)?;
        pooled(self, PoolFn::Average(Divisor::Inside), parts)
    }

    /// The largest elements of as many parts of each spatial axis as `outputs` says, for all axes or for each: [batch, outputs..., channels]. The
    /// parts are those of [`Tensor::adaptive_avg_pool`]; one part is the global maximum. NaN and gradients as for [`Tensor::max_pool`].
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[5.0f32, 2.0, 3.0, 1.0, 4.0], [1, 5, 1])?;
    /// assert_eq!(x.adaptive_max_pool(&[1])?.to_vec::<f32>()?, [5.0]);
    /// assert_eq!(x.adaptive_max_pool(&[2])?.to_vec::<f32>()?, [5.0, 4.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::adaptive_avg_pool`].
    pub fn adaptive_max_pool(&self, outputs: &[u64]) -> Result<Tensor> {
        let parts = parts("adaptive_max_pool", self, outputs)?;
        pooled(self, PoolFn::Max, parts)
    }
}
