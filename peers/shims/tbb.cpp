#include "shim.hpp"

#include <tbb/concurrent_hash_map.h>

#include <memory>

namespace {

struct Compare {
    shim::KeyHash of;

    std::size_t hash(std::uint64_t key) const noexcept { return of(key); }
    bool equal(std::uint64_t a, std::uint64_t b) const noexcept { return a == b; }
};

class Adapter {
    using Pair = std::pair<const std::uint64_t, std::uint64_t>;
    // Not TBB's own allocator: that one loads a library which takes pages of 4 KiB, while the
    // nodes of every other map lie on large ones.
    using Map = tbb::concurrent_hash_map<std::uint64_t, std::uint64_t, Compare,
                                         std::allocator<Pair>>;

    Map map_;

public:
    Adapter(std::uint64_t pairs, shim::KeyHash hash) : map_(pairs, Compare{hash}) {}

    bool get(std::uint64_t key, std::uint64_t& value) const {
        Map::const_accessor found;
        if (!map_.find(found, key)) return false;
        value = found->second;
        return true;
    }
    bool insert(std::uint64_t key, std::uint64_t value) { return map_.insert(Pair(key, value)); }
    bool update(std::uint64_t key, std::uint64_t value) {
        Map::accessor found;
        if (!map_.find(found, key)) return false;
        found->second = value;
        return true;
    }
    bool upsert(std::uint64_t key, std::uint64_t value) {
        Map::accessor found;
        const bool is_new = map_.insert(found, key);
        found->second = value;
        return !is_new;
    }
    bool remove(std::uint64_t key) { return map_.erase(key); }
};

}  // namespace

SHIM_EXPORT(tbb, Adapter)
