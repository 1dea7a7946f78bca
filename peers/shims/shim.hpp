// What the shims share: the hash function, and the C face of an adapter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace shim {

// rapidhash V3 of eight bytes, as `index::hash::Hasher::first_u64` computes it: a call back into
// Rust for every hash would not be inlined, and would slow these maps down. The numbers are those
// of `RapidSecrets`; `tests/conformance.rs` holds the two against each other.
struct KeyHash {
    // The output is well mixed: boost need not mix it again.
    using is_avalanching = void;

    std::uint64_t seed;
    std::uint64_t secret;

    static constexpr std::uint64_t key_bytes = 8;

    std::uint64_t operator()(std::uint64_t key) const noexcept {
        const unsigned __int128 product = product_of(key ^ secret, key ^ seed ^ key_bytes);
        const auto low = static_cast<std::uint64_t>(product);
        const auto high = static_cast<std::uint64_t>(product >> 64);
        const unsigned __int128 last =
            product_of(low ^ 0xaaaaaaaaaaaaaaaaU, high ^ secret ^ key_bytes);
        return static_cast<std::uint64_t>(last) ^ static_cast<std::uint64_t>(last >> 64);
    }

    static unsigned __int128 product_of(std::uint64_t a, std::uint64_t b) noexcept {
        return static_cast<unsigned __int128>(a) * b;
    }
};

}  // namespace shim

// Every function is noexcept: an exception (out of memory) ends the process, it must not unwind
// into Rust.
#define SHIM_EXPORT(prefix, Adapter)                                                              \
    extern "C" {                                                                                  \
    void* prefix##_new(std::uint64_t pairs, std::uint64_t seed, std::uint64_t secret) noexcept {  \
        return new Adapter(pairs, shim::KeyHash{seed, secret});                                   \
    }                                                                                             \
    void prefix##_free(void* map) noexcept { delete static_cast<Adapter*>(map); }                 \
    bool prefix##_get(const void* map, std::uint64_t key, std::uint64_t* value) noexcept {        \
        return static_cast<const Adapter*>(map)->get(key, *value);                                \
    }                                                                                             \
    bool prefix##_insert(void* map, std::uint64_t key, std::uint64_t value) noexcept {            \
        return static_cast<Adapter*>(map)->insert(key, value);                                    \
    }                                                                                             \
    bool prefix##_update(void* map, std::uint64_t key, std::uint64_t value) noexcept {            \
        return static_cast<Adapter*>(map)->update(key, value);                                    \
    }                                                                                             \
    bool prefix##_upsert(void* map, std::uint64_t key, std::uint64_t value) noexcept {            \
        return static_cast<Adapter*>(map)->upsert(key, value);                                    \
    }                                                                                             \
    bool prefix##_remove(void* map, std::uint64_t key) noexcept {                                 \
        return static_cast<Adapter*>(map)->remove(key);                                           \
    }                                                                                             \
    }
