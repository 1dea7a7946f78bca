# shellcheck shell=bash
# What powerloss/run and tests/dax/run share: packages, a kernel, programs and the first file system of a virtual
# machine.

# The status if a package is missing and cannot be installed: nothing was tried.
missing_status=77

powerloss="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
target="${CARGO_TARGET_DIR:-$powerloss/target}"
machine="$target/machine"
built="$target/x86_64-unknown-linux-gnu/release"
export CARGO_INCREMENTAL=0
export PATH="$PATH:/usr/sbin:/sbin"

say() { printf '%s: %s\n' "$0" "$*" >&2; }

give_up() { say "$*"; exit "$missing_status"; }

as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo -n)

# Installs the packages of commands that are missing.
install_packages() {
    command -v cargo >/dev/null || { say "cargo is missing: install Rust 1.95 or later (https://rustup.rs)"; exit 1; }
    local missing=() needed
    for needed in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio mkfs.ext4:e2fsprogs \
        debugfs:e2fsprogs; do
        command -v "${needed%%:*}" >/dev/null || missing+=("${needed#*:}")
    done
    [ ${#missing[@]} != 0 ] || return 0
    say "installing ${missing[*]}"
    local install=(apt-get install -qy --no-install-recommends "${missing[@]}")
    "${as_root[@]}" "${install[@]}" >&2 ||
        { "${as_root[@]}" apt-get update -q && "${as_root[@]}" "${install[@]}"; } >&2 ||
        give_up "packages are missing and cannot be installed: ${missing[*]}"
}

# A kernel, unpacked and not installed: its image is `kernel`, its modules' directory `drivers`.
unpack_kernel() {
    mkdir -p "$machine"
    if ! ls "$machine"/kernel/boot/vmlinuz-* >/dev/null 2>&1; then
        say "fetching a kernel"
        newest() { apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p'; }
        local package
        package="$(newest)"
        [ -n "$package" ] || { "${as_root[@]}" apt-get update -q >&2; package="$(newest)"; }
        (cd "$machine" && apt-get download -q "$package" >&2) ||
            give_up "the package linux-image-cloud-amd64 is missing and cannot be fetched"
        rm -rf "$machine/unpacked"
        dpkg-deb -x "$machine"/linux-image-*.deb "$machine/unpacked"
        rm "$machine"/linux-image-*.deb
        rm -rf "$machine/kernel"
        mv "$machine/unpacked" "$machine/kernel"
    fi
    kernel=("$machine"/kernel/boot/vmlinuz-*)
    drivers=("$machine"/kernel/lib/modules/*/kernel/drivers)
}

# Builds what these arguments of Cargo say into `$built`: static, so that the guest needs no libraries.
build_static() {
    RUSTFLAGS="${RUSTFLAGS-} -C target-feature=+crt-static" cargo build --release --locked --quiet \
        --target-dir "$target" --target x86_64-unknown-linux-gnu "$@" >&2
}

# Makes the initramfs `$1` with the first program `$2`, the programs and then, after `--`, the kernel's modules.
make_initramfs() {
    local initramfs="$1" init="$2" root="$1.root"
    shift 2
    rm -rf "$root"
    mkdir -p "$root"/{bin,dev,proc,sys,mnt,modules}
    install -m 755 "$init" "$root/init"
    install -m 755 "$(command -v busybox)" "$root/bin/busybox"
    for (( ; $# > 0; )); do
        [ "$1" != -- ] || { shift; break; }
        install -m 755 "$1" "$root/"
        shift
    done
    local module
    for module; do
        cp "${drivers[0]}/$module.ko" "$root/modules/"
    done
    (cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >"$initramfs"
}

# Runs the host's program with these arguments in a directory `work` of its own. Images are large and short-lived: in
# memory, if there is enough.
run_host() {
    local memory=/dev/shm
    [ -w "$memory" ] && [ "$(df --output=avail -k "$memory" | tail -n 1)" -gt 4000000 ] || memory="${TMPDIR:-/tmp}"
    work="$(mktemp -d "$memory/powerloss.XXXXXX")"
    trap 'rm -rf "$work"' EXIT
    "$built/powerloss" --kernel "${kernel[0]}" --work "$work" --kept "$target/kept" "$@"
}
