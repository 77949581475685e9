//! What wgpu can do with a context of GL, by the version that the driver gave it.
//!
//! wgpu asks for a core context of 3.3. Mesa gives the newest that it has, NVIDIA's driver just that, with compute shaders and storage
//! buffers as extensions: wgpu counts those as compute shaders, but cannot write any in the language of 3.3. Its own first
//! pipeline fails then, and "Parent device is lost" is all that it says when the device is opened (seen on an H100, driver
//! 580.159, wgpu 30).

/// The versions from which compute shaders and storage buffers are part of the language.
const CORE: (u32, u32) = (4, 3);
const EMBEDDED: (u32, u32) = (3, 1);

/// Why no device can be opened on a context of this version, as GL tells it (`GL_VERSION`): `3.3.0 NVIDIA 580.159.04`,
/// `4.5 (Core Profile) Mesa 22.3.6`, `OpenGL ES 3.2 Mesa 22.3.6`. Of a version that cannot be read nothing is said.
pub(crate) fn too_old(version: &str) -> Option<String> {
    let (numbers, least, name) = match version.strip_prefix("OpenGL ES ") {
        Some(rest) => (rest, EMBEDDED, "OpenGL ES"),
        None => (version, CORE, "OpenGL"),
    };
    let mut parts = numbers.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) else { return None };
    ((major, minor) < least).then(|| {
        format!(
            "its driver gives wgpu a context of {name} {major}.{minor}, in which wgpu can write no compute shader ({name} {}.{} can): \
             NVIDIA's does so always; use the card through CUDA or Vulkan",
            least.0, least.1
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_without_compute_shaders_in_their_language_are_told() {
        for fine in [
            "4.6.0 NVIDIA 580.159.04",
            "4.5 (Core Profile) Mesa 22.3.6",
            "4.3",
            "OpenGL ES 3.2 Mesa 22.3.6",
            "OpenGL ES 3.1",
            "",
            "WebGL 2.0",
            "a driver's own words",
        ] {
            assert_eq!(too_old(fine), None, "{fine}");
        }
        let nvidia = too_old("3.3.0 NVIDIA 580.159.04").unwrap();
        assert!(
            nvidia.contains("OpenGL 3.3") && nvidia.contains("4.3") && nvidia.contains("CUDA or Vulkan"),
            "{nvidia}"
        );
        assert!(too_old("4.2 (Core Profile) Mesa").is_some());
        assert!(too_old("OpenGL ES 3.0 Mesa").is_some_and(|why| why.contains("OpenGL ES 3.1 can")));
    }
}
