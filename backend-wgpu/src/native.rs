//! Every `unsafe` block of the backend: shader modules without run-time checks, and questions wgpu does not answer.

/// A shader module for one of the library's own kernels, without bounds checks and loop bounding.
///
/// Never for a user's text. Divisions keep their checks: kernels divide users' integers by users' integers, and WGSL
/// defines what a zero divisor gives.
pub(crate) fn trusted_module(device: &wgpu::Device, name: &str, source: wgpu::ShaderSource<'_>) -> wgpu::ShaderModule {
    let descriptor = wgpu::ShaderModuleDescriptor { label: Some(name), source };
    let mut checks = wgpu::ShaderRuntimeChecks::checked();
    checks.bounds_checks = false;
    checks.force_loop_bounding = false;
    // SAFETY: the text, or the module that was made of it, comes from `polywarp_shaders` or this crate, never from a caller. Its kernels stay inside their
    // buffers by construction: they compare every index with the element counts in their parameters, which
    // `polywarp_core::Device::execute` has compared with the buffers' sizes; the conformance harness runs each of them
    // with guard bytes round its outputs. Their loops run to counts held in parameters, so all of them end. wgpu still
    // validates the text itself.
    unsafe { device.create_shader_module_trusted(descriptor, checks) }
}

/// Leave to use `features` where one of them is experimental: cooperative matrices.
pub(crate) fn experimental(features: wgpu::Features) -> wgpu::ExperimentalFeatures {
    if !features.intersects(wgpu::Features::all_experimental_mask()) {
        return wgpu::ExperimentalFeatures::disabled();
    }
    // SAFETY: wgpu asks its users to know that these features may have bugs of wgpu's own. Cooperative matrices are used
    // by trusted kernels alone, in forms that the conformance harness runs on every device that has them, and a device's
    // first results from them are compared before they are believed.
    unsafe { wgpu::ExperimentalFeatures::enabled() }
}

/// Bytes of device-local memory, where the API can tell.
#[cfg(any(target_os = "linux", target_os = "windows", target_os = "android", target_os = "freebsd"))]
pub(crate) fn memory_bytes(adapter: &wgpu::Adapter) -> Option<u64> {
    // SAFETY: the guard is used within this function only, nothing is destroyed through it, and the one call made is a
    // query that Vulkan allows at any time for a physical device of a live instance; the guard keeps the instance alive.
    let heaps = unsafe {
        let vulkan = adapter.as_hal::<wgpu::hal::api::Vulkan>()?;
        let instance = vulkan.shared_instance().raw_instance();
        let properties = instance.get_physical_device_memory_properties(vulkan.raw_physical_device());
        let count = (properties.memory_heap_count as usize).min(properties.memory_heaps.len());
        properties.memory_heaps[..count].to_vec()
    };
    // VK_MEMORY_HEAP_DEVICE_LOCAL_BIT is 1.
    let local = heaps.iter().filter(|heap| heap.flags.as_raw() & 1 != 0).map(|heap| heap.size);
    Some(local.fold(0, u64::saturating_add)).filter(|&bytes| bytes > 0)
}

/// Bytes of device-local memory, where the API can tell.
#[cfg(not(any(target_os = "linux", target_os = "windows", target_os = "android", target_os = "freebsd")))]
pub(crate) fn memory_bytes(_adapter: &wgpu::Adapter) -> Option<u64> {
    None
}
