//! What a device says of itself: [`DeviceInfo`] for people, [`Caps`] for planners, both from what was really opened.

use polywarp_core::oracle::Subnormals;
use polywarp_core::plan::{Caps, Cooperative};
use polywarp_core::{DType, DeviceInfo, Limits};

use crate::adapters::{api_name, driver_name, kind_of, name_of};

/// Optional features that make kernels faster or possible. Nothing else is asked for: a feature in use is a code path
/// in the driver. Timestamps are for `timed`. Not immediates: parameters travel in a uniform with dynamic offsets, which every
/// device has and which holds more than 128 bytes; a launch costs 2.7 to 5.0 us all the same (ARCHITECTURE.md, "Decisions").
pub(crate) const USEFUL: wgpu::Features = wgpu::Features::SHADER_F16
    .union(wgpu::Features::SHADER_F64)
    .union(wgpu::Features::SHADER_INT64)
    .union(wgpu::Features::SUBGROUP)
    .union(wgpu::Features::SUBGROUP_BARRIER)
    .union(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX)
    .union(wgpu::Features::TIMESTAMP_QUERY)
    .union(wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS);

/// What planners may use.
pub(crate) fn caps(id: &str, features: wgpu::Features, limits: &wgpu::Limits, adapter: &wgpu::AdapterInfo) -> Caps {
    let subgroups = features.contains(wgpu::Features::SUBGROUP);
    // The uniform of the parameters counts among the buffers of a stage.
    let buffers = limits.max_buffers_and_acceleration_structures_per_shader_stage.saturating_sub(1);
    Caps {
        device: id.to_owned(),
        f16: features.contains(wgpu::Features::SHADER_F16),
        f64: features.contains(wgpu::Features::SHADER_F64),
        i64: features.contains(wgpu::Features::SHADER_INT64),
        // Vulkan leaves the direction of rounding open; SwiftShader does not take the nearest for large u32.
        nearest_conversions: false,
        subgroups: subgroups.then_some((adapter.subgroup_min_size, adapter.subgroup_max_size)),
        max_invocations: limits.max_compute_invocations_per_workgroup.min(limits.max_compute_workgroup_size_x),
        max_workgroup_bytes: limits.max_compute_workgroup_storage_size,
        max_workgroups: [limits.max_compute_workgroups_per_dimension; 3],
        max_storage_buffers: limits.max_storage_buffers_per_shader_stage.min(buffers),
        cooperative: Vec::new(),
        max_loop_rounds: None,
    }
}

/// The products of cooperative matrices that shaders of a device with `features` may use: square ones of floats.
pub(crate) fn cooperative(adapter: &wgpu::Adapter, features: wgpu::Features) -> Vec<Cooperative> {
    if !features.contains(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX) {
        return Vec::new();
    }
    let dtype = |scalar: wgpu::CooperativeScalarType| match scalar {
        wgpu::CooperativeScalarType::F32 => Some(DType::F32),
        wgpu::CooperativeScalarType::F16 => Some(DType::F16),
        wgpu::CooperativeScalarType::I32 | wgpu::CooperativeScalarType::U32 => None,
    };
    let square = |p: &wgpu::CooperativeMatrixProperties| p.m_size == p.n_size && p.n_size == p.k_size;
    let properties = adapter.cooperative_matrix_properties();
    let known = properties
        .iter()
        .filter(|p| square(p))
        .filter_map(|p| Some(Cooperative { size: p.m_size, factors: dtype(p.ab_type)?, sum: dtype(p.cr_type)? }));
    known.collect()
}

/// What users are told.
pub(crate) fn device_info(
    caps: &Caps,
    features: wgpu::Features,
    limits: &wgpu::Limits,
    adapter: &wgpu::AdapterInfo,
    memory_bytes: Option<u64>,
) -> DeviceInfo {
    DeviceInfo {
        id: caps.device.clone(),
        name: name_of(adapter),
        api: api_name(adapter.backend).to_owned(),
        kind: kind_of(adapter.device_type),
        driver: driver_name(adapter),
        pci_bus: Some(adapter.device_pci_bus_id.clone()).filter(|bus| !bus.is_empty()),
        memory_bytes,
        threads: None,
        limits: Limits {
            // Buffers are multiples of 16 bytes, as four-element loads are.
            max_buffer_bytes: limits.max_buffer_size / 16 * 16,
            max_binding_bytes: limits.max_storage_buffer_binding_size / 16 * 16,
            max_workgroups: [limits.max_compute_workgroups_per_dimension; 3],
            max_invocations_per_workgroup: limits.max_compute_invocations_per_workgroup,
            max_workgroup_bytes: limits.max_compute_workgroup_storage_size,
        },
        dtypes: DType::ALL.into_iter().filter(|&dtype| caps.require(dtype).is_ok()).collect(),
        features: features.iter_names().map(|(name, _)| name.to_lowercase()).collect(),
        // WGSL lets every compiler flush (WGSL, "Floating Point Evaluation").
        subnormals: Subnormals::MayFlush,
    }
}
