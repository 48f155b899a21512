//! Kernel keyrings.
#![expect(unsafe_code, reason = "keyctl has no safe wrapper")]

/// Joins a new, empty session keyring, so that a container does not share one with the host. Kernels without keyrings
/// have nothing to share: the error is ignored.
pub fn new_session() {
    const KEYCTL_JOIN_SESSION_KEYRING: libc::c_long = 1;
    // SAFETY: a null name asks for an anonymous keyring; no memory is touched.
    unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            KEYCTL_JOIN_SESSION_KEYRING,
            std::ptr::null::<libc::c_char>(),
        );
    }
}
