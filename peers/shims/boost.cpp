#include "shim.hpp"

#include <boost/unordered/concurrent_flat_map.hpp>

namespace {

class Adapter {
    boost::concurrent_flat_map<std::uint64_t, std::uint64_t, shim::KeyHash> map_;

public:
    Adapter(std::uint64_t pairs, shim::KeyHash hash) : map_(0, hash) { map_.reserve(pairs); }

    bool get(std::uint64_t key, std::uint64_t& value) const {
        return map_.cvisit(key, [&](const auto& pair) { value = pair.second; }) != 0;
    }
    bool insert(std::uint64_t key, std::uint64_t value) { return map_.emplace(key, value); }
    bool update(std::uint64_t key, std::uint64_t value) {
        return map_.visit(key, [=](auto& pair) { pair.second = value; }) != 0;
    }
    bool upsert(std::uint64_t key, std::uint64_t value) {
        return !map_.insert_or_assign(key, value);
    }
    bool remove(std::uint64_t key) { return map_.erase(key) != 0; }

    // A visit of many keys names the pairs it finds, not which of the keys each one answers.
    // It goes through the keys in order, so the place is the first one ahead with that key; the
    // search goes round, so that another order would cost time but answer no less right.
    void get_many(const std::uint64_t* keys, std::size_t count, std::uint64_t* values,
                  bool* found) const {
        std::size_t next = 0;
        map_.cvisit(keys, keys + count, [&](const auto& pair) {
            while (keys[next] != pair.first || found[next]) next = next + 1 < count ? next + 1 : 0;
            values[next] = pair.second;
            found[next] = true;
        });
    }
};

}  // namespace

SHIM_EXPORT(boost, Adapter)

// `found` comes all false.
extern "C" void boost_get_many(const void* map, const std::uint64_t* keys, std::size_t count,
                               std::uint64_t* values, bool* found) noexcept {
    static_cast<const Adapter*>(map)->get_many(keys, count, values, found);
}
