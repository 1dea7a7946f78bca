#include "shim.hpp"

#include <libcuckoo/cuckoohash_map.hh>

namespace {

class Adapter {
    libcuckoo::cuckoohash_map<std::uint64_t, std::uint64_t, shim::KeyHash> map_;

public:
    Adapter(std::uint64_t pairs, shim::KeyHash hash) : map_(pairs, hash) {}

    bool get(std::uint64_t key, std::uint64_t& value) const { return map_.find(key, value); }
    bool insert(std::uint64_t key, std::uint64_t value) { return map_.insert(key, value); }
    bool update(std::uint64_t key, std::uint64_t value) { return map_.update(key, value); }
    bool upsert(std::uint64_t key, std::uint64_t value) {
        return !map_.insert_or_assign(key, value);
    }
    bool remove(std::uint64_t key) { return map_.erase(key); }
};

}  // namespace

SHIM_EXPORT(libcuckoo, Adapter)
