// The hash function alone, for the test that holds it against ours.

#include "shim.hpp"

extern "C" std::uint64_t shim_hash(std::uint64_t key, std::uint64_t seed,
                                   std::uint64_t secret) noexcept {
    return shim::KeyHash{seed, secret}(key);
}
