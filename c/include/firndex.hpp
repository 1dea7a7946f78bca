/* firndex for C++17 and later: firndex.h with classes that close and release by themselves, and with exceptions. The
 * promises are those of firndex.h. The guide is docs/guide/c.md.
 *
 * A call that fails throws firndex::Error. Destructors ignore errors; Store::close and Table::close report them.
 * Values and iterators are to be destroyed before their store, in the thread that got them. */
#ifndef FIRNDEX_HPP
#define FIRNDEX_HPP

#include "firndex.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#if __cplusplus >= 202002L
#include <span>
#endif

namespace firndex {

/* A call failed. what() says what was found, what was expected, and what to do. */
class Error : public std::runtime_error {
public:
    explicit Error(firndex_code code) : std::runtime_error(firndex_message()), code_(code) {}

    firndex_code code() const noexcept { return code_; }
    /* Such as "FIRNDEX_ERROR_BUSY". */
    const char *name() const noexcept { return firndex_code_name(code_); }

private:
    firndex_code code_;
};

/* A batch of changes failed. codes() says what became of each entry: FIRNDEX_OK, FIRNDEX_UNDONE, or the error. */
class BatchError : public Error {
public:
    BatchError(firndex_code code, std::vector<int> codes)
        : Error(code), codes_(std::make_shared<const std::vector<int>>(std::move(codes))) {}

    const std::vector<int> &codes() const noexcept { return *codes_; }
    bool is_done(std::size_t index) const { return codes_->at(index) == FIRNDEX_OK; }

private:
    /* Shared, since an exception is copied, which must not fail. */
    std::shared_ptr<const std::vector<int>> codes_;
};

/* Throws if the code is an error. */
inline firndex_code must(firndex_code code) {
    if (code < 0) throw Error(code);
    return code;
}

/* Somebody's bytes: a string, a string_view, or a span (C++20). */
class Bytes {
public:
    Bytes(std::string_view text) noexcept : data_(text.data()), size_(text.size()) {}
    Bytes(const std::string &text) noexcept : data_(text.data()), size_(text.size()) {}
    Bytes(const char *text) noexcept : data_(text), size_(std::strlen(text)) {}
    Bytes(const void *data, std::size_t size) noexcept : data_(data), size_(size) {}
#if __cplusplus >= 202002L
    template <std::size_t Extent>
    Bytes(std::span<const std::byte, Extent> bytes) noexcept : data_(bytes.data()), size_(bytes.size()) {}
    template <std::size_t Extent>
    Bytes(std::span<std::byte, Extent> bytes) noexcept : data_(bytes.data()), size_(bytes.size()) {}
#endif

    const void *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    firndex_bytes raw() const noexcept { return {data_, size_}; }

private:
    const void *data_;
    std::size_t size_;
};

/* How a pool is opened: the members of firndex_options. */
struct Options : firndex_options {
    Options() : firndex_options FIRNDEX_OPTIONS_INIT {}
};

/* A value in place, or none. Hold it briefly: it keeps the space of replaced values, and its store open. */
class Value {
public:
    Value() noexcept : value_{nullptr, 0, 0} {}
    /* Takes over a value that was lent. */
    explicit Value(firndex_value value) noexcept : value_(value) {}
    Value(Value &&other) noexcept : value_(std::exchange(other.value_, firndex_value{nullptr, 0, 0})) {}
    Value &operator=(Value &&other) noexcept {
        if (this != &other) {
            firndex_value_release(&value_);
            value_ = std::exchange(other.value_, firndex_value{nullptr, 0, 0});
        }
        return *this;
    }
    Value(const Value &) = delete;
    Value &operator=(const Value &) = delete;
    ~Value() { firndex_value_release(&value_); }

    /* Whether there is one. */
    explicit operator bool() const noexcept { return value_.hold != 0; }
    const void *data() const noexcept { return value_.data; }
    std::size_t size() const noexcept { return value_.size; }
    std::string_view view() const noexcept { return {static_cast<const char *>(value_.data), value_.size}; }
    std::string string() const { return std::string(view()); }
#if __cplusplus >= 202002L
    std::span<const std::byte> span() const noexcept {
        return {static_cast<const std::byte *>(value_.data), value_.size};
    }
#endif

    /* Releases it now, and reports errors. */
    void release() {
        firndex_value value = std::exchange(value_, firndex_value{nullptr, 0, 0});
        must(firndex_value_release(&value));
    }

private:
    firndex_value value_;
};

namespace detail {

struct StoreCalls {
    using Handle = firndex_store;
    static constexpr auto open = firndex_store_open;
    static constexpr auto in_memory = firndex_store_in_memory;
    static constexpr auto close = firndex_store_close;
    static constexpr auto len = firndex_store_len;
    static constexpr auto sync = firndex_store_sync;
    static constexpr auto commit = firndex_store_commit;
    static constexpr auto check = firndex_store_check;
    static constexpr auto shrink = firndex_store_shrink;
    static constexpr auto role = firndex_store_role;
    static constexpr auto was_reset = firndex_store_was_reset;
    static constexpr auto stats = firndex_store_stats;
    static constexpr auto backup = firndex_store_backup;
};

struct TableCalls {
    using Handle = firndex_table;
    static constexpr auto open = firndex_table_open;
    static constexpr auto in_memory = firndex_table_in_memory;
    static constexpr auto close = firndex_table_close;
    static constexpr auto len = firndex_table_len;
    static constexpr auto sync = firndex_table_sync;
    static constexpr auto commit = firndex_table_commit;
    static constexpr auto check = firndex_table_check;
    static constexpr auto shrink = firndex_table_shrink;
    static constexpr auto role = firndex_table_role;
    static constexpr auto was_reset = firndex_table_was_reset;
    static constexpr auto stats = firndex_table_stats;
    static constexpr auto backup = firndex_table_backup;
};

/* What stores and tables have in common. */
template <typename Calls> class Pool {
public:
    using Handle = typename Calls::Handle;

    Pool(Pool &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Pool &operator=(Pool &&other) noexcept {
        if (this != &other) {
            Calls::close(handle_);
            handle_ = std::exchange(other.handle_, nullptr);
        }
        return *this;
    }
    Pool(const Pool &) = delete;
    Pool &operator=(const Pool &) = delete;
    ~Pool() { Calls::close(handle_); }

    /* Writes everything to the device, and closes it. If it is in use (FIRNDEX_ERROR_IN_USE), it stays open. */
    void close() {
        firndex_code code = Calls::close(handle_);
        if (code != FIRNDEX_ERROR_IN_USE) handle_ = nullptr;
        must(code);
    }

    std::uint64_t size() const {
        std::uint64_t pairs;
        must(Calls::len(handle_, &pairs));
        return pairs;
    }
    bool empty() const { return size() == 0; }
    void sync() { must(Calls::sync(handle_)); }
    void commit() { must(Calls::commit(handle_)); }
    void check() { must(Calls::check(handle_)); }
    bool shrink() {
        bool is_halved;
        must(Calls::shrink(handle_, &is_halved));
        return is_halved;
    }
    /* Why the pool was made anew when it was opened, if it was. */
    std::optional<std::string> was_reset() const {
        if (must(Calls::was_reset(handle_)) != FIRNDEX_RESET) return std::nullopt;
        return firndex_message();
    }
    firndex_role role() const {
        int role;
        must(Calls::role(handle_, &role));
        return static_cast<firndex_role>(role);
    }
    firndex_stats stats() const {
        firndex_stats stats = FIRNDEX_STATS_INIT;
        must(Calls::stats(handle_, &stats));
        return stats;
    }
    firndex_copied backup(const std::string &out, firndex_existing existing = FIRNDEX_KEEP) const {
        firndex_copied copied;
        must(Calls::backup(handle_, out.c_str(), existing, &copied));
        return copied;
    }

    /* For calls of firndex.h. It stays this object's. */
    Handle *handle() const noexcept { return handle_; }

protected:
    explicit Pool(Handle *handle) noexcept : handle_(handle) {}

    static Handle *opened(const std::string &path, firndex_mode mode, const Options &options) {
        Handle *handle;
        must(Calls::open(path.c_str(), mode, &options, &handle));
        return handle;
    }
    static Handle *made(const Options &options) {
        Handle *handle;
        must(Calls::in_memory(&options, &handle));
        return handle;
    }

private:
    Handle *handle_;
};

struct StoreIteration {
    using Handle = firndex_store_iterator;
    using Pair = std::pair<std::string_view, std::string_view>;
    static constexpr auto free = firndex_store_iterator_free;

    static firndex_code next(Handle *handle, Pair &pair) {
        firndex_bytes key{}, value{};
        firndex_code code = must(firndex_store_iterator_next(handle, &key, &value));
        pair.first = {static_cast<const char *>(key.data), key.size};
        pair.second = {static_cast<const char *>(value.data), value.size};
        return code;
    }
};

struct TableIteration {
    using Handle = firndex_table_iterator;
    using Pair = std::pair<std::uint64_t, std::uint64_t>;
    static constexpr auto free = firndex_table_iterator_free;

    static firndex_code next(Handle *handle, Pair &pair) {
        return must(firndex_table_iterator_next(handle, &pair.first, &pair.second));
    }
};

/* An input iterator. Copies share their place. A store's pairs stay until the next increment. */
template <typename Iteration> class Iterator {
public:
    using iterator_category = std::input_iterator_tag;
    using value_type = typename Iteration::Pair;
    using difference_type = std::ptrdiff_t;
    using pointer = const value_type *;
    using reference = const value_type &;

    /* The end. */
    Iterator() = default;
    explicit Iterator(typename Iteration::Handle *handle) : handle_(handle, Iteration::free) { ++*this; }

    reference operator*() const noexcept { return pair_; }
    pointer operator->() const noexcept { return &pair_; }
    Iterator &operator++() {
        if (Iteration::next(handle_.get(), pair_) == FIRNDEX_END) handle_.reset();
        return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(const Iterator &other) const noexcept { return handle_ == other.handle_; }
    bool operator!=(const Iterator &other) const noexcept { return !(*this == other); }

private:
    std::shared_ptr<typename Iteration::Handle> handle_;
    value_type pair_{};
};

/* What a batch of changes returned. */
inline std::vector<int> told(firndex_code code, std::vector<int> codes) {
    if (code < 0) throw BatchError(code, std::move(codes));
    return codes;
}

} // namespace detail

/* Byte strings to byte strings: firndex_store. */
class Store : public detail::Pool<detail::StoreCalls> {
public:
    using iterator = detail::Iterator<detail::StoreIteration>;
    using const_iterator = iterator;
    using Pair = std::pair<Bytes, Bytes>;

    static Store open(const std::string &path, const Options &options = {}) {
        return Store(opened(path, FIRNDEX_OPEN, options));
    }
    static Store create(const std::string &path, const Options &options = {}) {
        return Store(opened(path, FIRNDEX_CREATE, options));
    }
    static Store open_or_create(const std::string &path, const Options &options = {}) {
        return Store(opened(path, FIRNDEX_OPEN_OR_CREATE, options));
    }
    static Store in_memory(const Options &options = {}) { return Store(made(options)); }

    /* A copy of the value. */
    std::optional<std::string> get(Bytes key) const {
        Value value = lend(key);
        if (!value) return std::nullopt;
        return value.string();
    }
    /* The value in place, or none. */
    Value lend(Bytes key) const {
        firndex_value value;
        must(firndex_store_get_value(handle(), key.data(), key.size(), &value));
        return Value(value);
    }
    bool contains(Bytes key) const {
        return must(firndex_store_contains(handle(), key.data(), key.size())) == FIRNDEX_OK;
    }
    void put(Bytes key, Bytes value) {
        must(firndex_store_put(handle(), key.data(), key.size(), value.data(), value.size(), nullptr));
    }
    /* Stores the pair, and returns the value that it replaced. */
    Value exchange(Bytes key, Bytes value) {
        firndex_value former;
        must(firndex_store_put(handle(), key.data(), key.size(), value.data(), value.size(), &former));
        return Value(former);
    }
    /* Stores the pair if the key is absent; whether it did. */
    bool insert(Bytes key, Bytes value) {
        return must(firndex_store_insert(handle(), key.data(), key.size(), value.data(), value.size(), nullptr)) ==
               FIRNDEX_OK;
    }
    /* Replaces the value if the key is present; whether it did. */
    bool update(Bytes key, Bytes value) {
        return must(firndex_store_update(handle(), key.data(), key.size(), value.data(), value.size(), nullptr)) ==
               FIRNDEX_OK;
    }
    /* Removes the key; whether it was present. */
    bool remove(Bytes key) {
        return must(firndex_store_remove(handle(), key.data(), key.size(), nullptr)) == FIRNDEX_OK;
    }
    /* Removes the key, and returns its value. */
    Value take(Bytes key) {
        firndex_value former;
        must(firndex_store_remove(handle(), key.data(), key.size(), &former));
        return Value(former);
    }
    /* Changes the state of a key from one to another, of which none is absence; whether it did. */
    bool compare_exchange(Bytes key, std::optional<Bytes> expected, std::optional<Bytes> desired,
                          Value *found = nullptr) {
        firndex_bytes before{}, after{};
        firndex_value state{nullptr, 0, 0};
        if (expected) before = expected->raw();
        if (desired) after = desired->raw();
        firndex_code code =
            must(firndex_store_compare_exchange(handle(), key.data(), key.size(), expected ? &before : nullptr,
                                                desired ? &after : nullptr, found != nullptr ? &state : nullptr));
        if (found != nullptr) *found = Value(state);
        return code == FIRNDEX_OK;
    }
    /* Passes the value, if there is one (std::optional<std::string_view>), to `change`, and stores what that returns
     * (std::optional<std::string>; none removes the key), in one atomic step. It may be called several times. */
    template <typename Change> void modify(Bytes key, Change change) {
        Value value = lend(key);
        for (;;) {
            std::optional<std::string_view> before;
            if (value) before = value.view();
            std::optional<std::string> after = change(before);
            std::optional<Bytes> expected, desired;
            if (before) expected = Bytes(*before);
            if (after) desired = Bytes(*after);
            Value found;
            if (compare_exchange(key, expected, desired, &found)) return;
            value = std::move(found);
        }
    }

    /* The value of each key, in place. */
    template <typename Keys> std::vector<Value> get_many(const Keys &keys) const {
        std::vector<firndex_bytes> raw = raw_of(keys);
        std::vector<firndex_value> found(raw.size());
        std::vector<Value> values;
        values.reserve(raw.size());
        must(firndex_store_get_many(handle(), raw.data(), raw.size(), found.data()));
        for (firndex_value value : found) values.emplace_back(value);
        return values;
    }
    std::vector<Value> get_many(std::initializer_list<Bytes> keys) const {
        return get_many<std::initializer_list<Bytes>>(keys);
    }

    /* Batches return a code for each pair or key. A pair has members `first` and `second`. */
    template <typename Pairs> std::vector<int> put_many(const Pairs &pairs) {
        return change_many(firndex_store_put_many, pairs);
    }
    std::vector<int> put_many(std::initializer_list<Pair> pairs) {
        return put_many<std::initializer_list<Pair>>(pairs);
    }
    template <typename Pairs> std::vector<int> insert_many(const Pairs &pairs) {
        return change_many(firndex_store_insert_many, pairs);
    }
    std::vector<int> insert_many(std::initializer_list<Pair> pairs) {
        return insert_many<std::initializer_list<Pair>>(pairs);
    }
    template <typename Pairs> std::vector<int> update_many(const Pairs &pairs) {
        return change_many(firndex_store_update_many, pairs);
    }
    std::vector<int> update_many(std::initializer_list<Pair> pairs) {
        return update_many<std::initializer_list<Pair>>(pairs);
    }
    template <typename Keys> std::vector<int> remove_many(const Keys &keys) {
        std::vector<firndex_bytes> raw = raw_of(keys);
        std::vector<int> codes(raw.size(), FIRNDEX_UNDONE);
        firndex_code code = firndex_store_remove_many(handle(), raw.data(), raw.size(), codes.data());
        return detail::told(code, std::move(codes));
    }
    std::vector<int> remove_many(std::initializer_list<Bytes> keys) {
        return remove_many<std::initializer_list<Bytes>>(keys);
    }

    std::uint64_t compact() {
        std::uint64_t freed_bytes;
        must(firndex_store_compact(handle(), &freed_bytes));
        return freed_bytes;
    }

    iterator begin() const {
        firndex_store_iterator *iteration;
        must(firndex_store_iterate(handle(), &iteration));
        return iterator(iteration);
    }
    iterator end() const noexcept { return {}; }

private:
    explicit Store(firndex_store *handle) noexcept : Pool(handle) {}

    template <typename Keys> static std::vector<firndex_bytes> raw_of(const Keys &keys) {
        std::vector<firndex_bytes> raw;
        for (const auto &key : keys) raw.push_back(Bytes(key).raw());
        return raw;
    }

    template <typename Call, typename Pairs> std::vector<int> change_many(Call call, const Pairs &pairs) {
        std::vector<firndex_pair> raw;
        for (const auto &pair : pairs) raw.push_back({Bytes(pair.first).raw(), Bytes(pair.second).raw()});
        std::vector<int> codes(raw.size(), FIRNDEX_UNDONE);
        firndex_code code = call(handle(), raw.data(), raw.size(), codes.data());
        return detail::told(code, std::move(codes));
    }
};

/* Numbers of 64 bits to numbers of 64 bits: firndex_table. */
class Table : public detail::Pool<detail::TableCalls> {
public:
    using iterator = detail::Iterator<detail::TableIteration>;
    using const_iterator = iterator;
    using State = std::optional<std::uint64_t>;

    static Table open(const std::string &path, const Options &options = {}) {
        return Table(opened(path, FIRNDEX_OPEN, options));
    }
    static Table create(const std::string &path, const Options &options = {}) {
        return Table(opened(path, FIRNDEX_CREATE, options));
    }
    static Table open_or_create(const std::string &path, const Options &options = {}) {
        return Table(opened(path, FIRNDEX_OPEN_OR_CREATE, options));
    }
    static Table in_memory(const Options &options = {}) { return Table(made(options)); }

    State get(std::uint64_t key) const {
        std::uint64_t value;
        if (must(firndex_table_get(handle(), key, &value)) == FIRNDEX_ABSENT) return std::nullopt;
        return value;
    }
    bool contains(std::uint64_t key) const { return must(firndex_table_contains(handle(), key)) == FIRNDEX_OK; }
    /* Stores the pair, and returns the value that it replaced. */
    State put(std::uint64_t key, std::uint64_t value) {
        firndex_state former;
        must(firndex_table_put(handle(), key, value, &former));
        return of(former);
    }
    /* Stores the pair if the key is absent, and returns the value that is there and stays, if it is not. */
    State insert(std::uint64_t key, std::uint64_t value) {
        firndex_state former;
        must(firndex_table_insert(handle(), key, value, &former));
        return of(former);
    }
    /* Replaces the value if the key is present, and returns the one that it replaced. */
    State update(std::uint64_t key, std::uint64_t value) {
        firndex_state former;
        must(firndex_table_update(handle(), key, value, &former));
        return of(former);
    }
    /* Removes the key, and returns its value. */
    State remove(std::uint64_t key) {
        firndex_state former;
        must(firndex_table_remove(handle(), key, &former));
        return of(former);
    }
    /* Changes the state of a key from one to another, of which none is absence; whether it did. `found` gets the state
     * that it was in. */
    bool compare_exchange(std::uint64_t key, State expected, State desired, State *found = nullptr) {
        firndex_state state;
        firndex_code code =
            must(firndex_table_compare_exchange(handle(), key, expected ? &*expected : nullptr,
                                                desired ? &*desired : nullptr, &state));
        if (found != nullptr) *found = of(state);
        return code == FIRNDEX_OK;
    }
    /* Passes the state of a key (std::optional<std::uint64_t>) to `change`, and stores what that returns, in one atomic
     * step. Returns the former state. It may be called several times. */
    template <typename Change> State modify(std::uint64_t key, Change change) {
        State before = get(key);
        while (!compare_exchange(key, before, change(before), &before)) {}
        return before;
    }

    std::vector<State> get_many(const std::vector<std::uint64_t> &keys) const {
        std::vector<firndex_state> found(keys.size());
        must(firndex_table_get_many(handle(), keys.data(), keys.size(), found.data()));
        std::vector<State> states;
        states.reserve(keys.size());
        for (firndex_state state : found) states.push_back(of(state));
        return states;
    }
    /* Batches of changes return a code for each entry. There are as many values as keys. */
    std::vector<int> put_many(const std::vector<std::uint64_t> &keys, const std::vector<std::uint64_t> &values) {
        return change_many(firndex_table_put_many, keys, values);
    }
    std::vector<int> insert_many(const std::vector<std::uint64_t> &keys, const std::vector<std::uint64_t> &values) {
        return change_many(firndex_table_insert_many, keys, values);
    }
    std::vector<int> update_many(const std::vector<std::uint64_t> &keys, const std::vector<std::uint64_t> &values) {
        return change_many(firndex_table_update_many, keys, values);
    }
    std::vector<int> remove_many(const std::vector<std::uint64_t> &keys) {
        std::vector<int> codes(keys.size(), FIRNDEX_UNDONE);
        firndex_code code = firndex_table_remove_many(handle(), keys.data(), keys.size(), codes.data());
        return detail::told(code, std::move(codes));
    }

    iterator begin() const {
        firndex_table_iterator *iteration;
        must(firndex_table_iterate(handle(), &iteration));
        return iterator(iteration);
    }
    iterator end() const noexcept { return {}; }

private:
    explicit Table(firndex_table *handle) noexcept : Pool(handle) {}

    static State of(firndex_state state) { return state.is_present ? State(state.value) : std::nullopt; }

    template <typename Call>
    std::vector<int> change_many(Call call, const std::vector<std::uint64_t> &keys,
                                 const std::vector<std::uint64_t> &values) {
        if (keys.size() != values.size()) {
            throw std::invalid_argument("there are " + std::to_string(keys.size()) + " keys and " +
                                        std::to_string(values.size()) +
                                        " values, expected as many: pass a value for each key");
        }
        std::vector<int> codes(keys.size(), FIRNDEX_UNDONE);
        firndex_code code = call(handle(), keys.data(), values.data(), keys.size(), codes.data());
        return detail::told(code, std::move(codes));
    }
};

/* Removes a pool that is not open, with its log and checkpoint. */
inline void remove(const std::string &path, const Options &options = {}) {
    must(firndex_remove(path.c_str(), &options));
}

} // namespace firndex

#endif
