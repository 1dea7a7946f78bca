// The wrapper for C++, by each of its calls.

#include <firndex.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <csignal>
#include <map>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#define CHECK(condition)                                                                       \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);       \
            std::exit(1);                                                                      \
        }                                                                                      \
    } while (0)

// The code of what a call throws.
template <typename Call> static firndex_code thrown(Call call) {
    try {
        call();
    } catch (const firndex::Error &error) {
        CHECK(std::string_view(error.what()).size() > 20);
        CHECK(std::string_view(error.name()) == firndex_code_name(error.code()));
        return error.code();
    }
    return FIRNDEX_OK;
}

static firndex::Options small() {
    firndex::Options options;
    options.max_bytes = 256 << 20;
    return options;
}

static void stores(const std::string &directory) {
    std::string path = directory + "/store.firn";
    {
        firndex::Store store = firndex::Store::create(path, small());
        CHECK(store.empty() && !store.get("apple"));
        store.put("apple", "red");
        CHECK(store.get("apple") == "red" && store.contains("apple"));
        firndex::Value former = store.exchange("apple", std::string("green"));
        CHECK(former && former.view() == "red" && former.size() == 3);
        former.release();
        CHECK(!former && former.view().empty());
        CHECK(!store.exchange("pear", "yellow"));
        CHECK(!store.insert("apple", "blue") && store.insert("plum", "blue"));
        CHECK(store.update("plum", "violet") && !store.update("fig", "brown"));
        CHECK(store.take("plum").string() == "violet" && !store.take("plum"));
        CHECK(store.remove("pear") && !store.remove("pear"));

        // A value that was moved from is none, and the other is released once.
        firndex::Value one = store.lend("apple");
        firndex::Value two = std::move(one);
        CHECK(!one && two.view() == "green");
        one = std::move(two);
        CHECK(!two && one.view() == "green");
        one = store.lend("apple");
        one.release();
        one.release();

        // Bytes are bytes, zeros as well, and none at all.
        std::string zeros("a\0b", 3);
        store.put(zeros, std::string_view());
        CHECK(store.get(zeros) == "" && !store.contains("a"));
        CHECK(store.remove(zeros));
        store.put(std::string_view(), "nothing");
        CHECK(store.get("") == "nothing" && store.remove(""));
#if __cplusplus >= 202002L
        std::array<std::byte, 3> bytes{std::byte{1}, std::byte{2}, std::byte{3}};
        store.put(std::span(bytes), std::span<const std::byte>(bytes).first(2));
        firndex::Value found = store.lend(std::span<const std::byte>(bytes));
        CHECK(std::ranges::equal(found.span(), std::span(bytes).first(2)));
        found.release();
        store.remove(std::span(bytes));
#endif

        firndex::Value state;
        CHECK(!store.compare_exchange("apple", "red", "blue", &state) && state.view() == "green");
        CHECK(!store.compare_exchange("apple", std::nullopt, "blue"));
        CHECK(store.compare_exchange("apple", "green", std::nullopt));
        CHECK(!store.compare_exchange("apple", "green", "red", &state) && !state);
        CHECK(store.compare_exchange("apple", std::nullopt, "green"));

        auto append = [](std::optional<std::string_view> text) -> std::optional<std::string> {
            return std::string(text.value_or("")) + "+";
        };
        store.modify("log", append);
        store.modify("log", append);
        CHECK(store.get("log") == "++");
        store.modify("log", [](auto) { return std::optional<std::string>(); });
        CHECK(!store.contains("log"));

        std::map<std::string, std::string> capitals{{"France", "Paris"}, {"Italy", "Rome"}};
        CHECK((store.put_many(capitals) == std::vector<int>{FIRNDEX_OK, FIRNDEX_OK}));
        using Codes = std::vector<int>;
        CHECK((store.insert_many({{"Italy", "Milan"}, {"Spain", "Madrid"}}) == Codes{FIRNDEX_PRESENT, FIRNDEX_OK}));
        CHECK((store.update_many({{"Spain", "Toledo"}, {"Atlantis", "?"}}) == Codes{FIRNDEX_OK, FIRNDEX_ABSENT}));
        {
            std::vector<firndex::Value> values = store.get_many({"Italy", "Atlantis", "Spain"});
            CHECK(values[0].view() == "Rome" && !values[1] && values[2].view() == "Toledo");
            // They are lent, so it cannot be closed, and works on.
            CHECK(thrown([&] { store.close(); }) == FIRNDEX_ERROR_IN_USE);
            CHECK(store.get_many(std::vector<std::string>{"Italy"})[0].view() == "Rome");
        }
        CHECK((store.remove_many({"Spain", "Atlantis"}) == std::vector<int>{FIRNDEX_OK, FIRNDEX_ABSENT}));

        std::map<std::string, std::string> all, expected{{"apple", "green"}, {"France", "Paris"}, {"Italy", "Rome"}};
        for (const auto &[key, value] : store) all.emplace(key, value);
        CHECK(all == expected);
        CHECK(std::distance(store.begin(), store.end()) == 3);
        CHECK(std::any_of(store.begin(), store.end(), [](const auto &pair) { return pair.second == "Rome"; }));

        store.sync();
        store.check();
        store.compact();
        store.shrink();
        CHECK(!store.was_reset());
        CHECK(store.stats().pairs == 3 && store.size() == 3);
        firndex_code committed = store.stats().is_logged ? FIRNDEX_OK : FIRNDEX_ERROR_NOT_LOGGED;
        CHECK(thrown([&] { store.commit(); }) == committed);
        CHECK(store.backup(directory + "/copy.firn").pairs == 3);
        CHECK(thrown([&] { store.backup(directory + "/copy.firn"); }) == FIRNDEX_ERROR_EXISTS);
        store.backup(directory + "/copy.firn", FIRNDEX_REPLACE);

        CHECK(thrown([&] { firndex::Store::open(path); }) == FIRNDEX_ERROR_ALREADY_OPEN);
        CHECK(thrown([&] { store.put(std::string(70000, 'a'), "b"); }) == FIRNDEX_ERROR_TOO_LONG);
        firndex::Store moved = std::move(store);
        CHECK(moved.get("Italy") == "Rome" && store.handle() == nullptr);
        CHECK(thrown([&] { store.get("Italy"); }) == FIRNDEX_ERROR_ARGUMENT);
        moved = firndex::Store::in_memory(small());
        CHECK(moved.empty());
    }
    firndex::Store store = firndex::Store::open(path);
    CHECK(store.size() == 3);
    store.close();
    CHECK(thrown([&] { store.get("Italy"); }) == FIRNDEX_ERROR_ARGUMENT);
    store.close();
    CHECK(firndex::Store::open_or_create(directory + "/copy.firn").get("Italy") == "Rome");
    firndex::remove(directory + "/copy.firn");
    CHECK(thrown([&] { firndex::Store::open(directory + "/copy.firn"); }) == FIRNDEX_ERROR_MISSING);
}

static void tables(const std::string &directory) {
    std::string path = directory + "/table.firn";
    firndex::Table table = firndex::Table::create(path, small());
    CHECK(!table.get(1) && !table.put(1, 10) && table.get(1) == 10u && table.put(1, 11) == 10u);
    CHECK(table.insert(1, 12) == 11u && !table.insert(2, 20) && table.update(2, 21) == 20u && !table.update(3, 30));
    CHECK(table.contains(2) && table.remove(2) == 21u && !table.remove(2) && !table.contains(2));
    firndex::Table::State found;
    CHECK(!table.compare_exchange(1, 10, 20, &found) && found == 11u && table.compare_exchange(1, 11, std::nullopt));
    CHECK(table.compare_exchange(1, std::nullopt, 5) && table.get(1) == 5u);
    CHECK(table.modify(1, [](auto state) { return firndex::Table::State(state.value_or(0) + 1); }) == 5u);
    CHECK(table.get(1) == 6u);
    CHECK((table.put_many({1, 2, 3}, {10, 20, 30}) == std::vector<int>(3, FIRNDEX_OK)));
    CHECK((table.get_many({3, 4}) == std::vector<firndex::Table::State>{30, std::nullopt}));
    CHECK((table.insert_many({3, 4}, {0, 40}) == std::vector<int>{FIRNDEX_PRESENT, FIRNDEX_OK}));
    CHECK((table.update_many({5, 4}, {0, 41}) == std::vector<int>{FIRNDEX_ABSENT, FIRNDEX_OK}));
    CHECK((table.remove_many({5, 4}) == std::vector<int>{FIRNDEX_ABSENT, FIRNDEX_OK}));
    try {
        table.put_many({1, 2}, {1});
        CHECK(false);
    } catch (const std::invalid_argument &) {
    }
    std::uint64_t sum = 0;
    for (auto [key, value] : table) sum += key * value;
    CHECK(sum == 10 + 40 + 90);
    table.check();
    table.close();
    CHECK(firndex::Table::open(path).size() == 3);
    CHECK(thrown([&] { firndex::Store::open(path); }) == FIRNDEX_ERROR_MISMATCH);
    CHECK(firndex::Table::open_or_create(path).size() == 3 && firndex::Table::in_memory(small()).empty());
}

// A batch that fails says what became of each entry.
static void failures() {
    firndex::Options options;
    options.max_bytes = 1 << 20;
    firndex::Store store = firndex::Store::in_memory(options);
    std::map<std::string, std::string> pairs;
    for (int i = 0; i < 3000; i++) pairs[std::to_string(i)] = std::string(1000, 'x');
    try {
        store.put_many(pairs);
        CHECK(false);
    } catch (const firndex::BatchError &error) {
        CHECK(error.code() == FIRNDEX_ERROR_FULL && error.codes().size() == pairs.size());
        std::size_t index = 0, done = 0;
        for (const auto &pair : pairs) {
            CHECK(store.contains(pair.first) == error.is_done(index));
            done += error.is_done(index++);
        }
        CHECK(done == store.size() && done > 0);
    }
}

// A thread-local that was made before the first call, and so is destroyed after what firndex has for the thread.
struct Late {
    firndex::Store *store = nullptr;
    firndex::Value lent;
    ~Late() {
        if (store == nullptr) return;
        store->put("late", "but in time");
        CHECK(thrown([&] { store->lend("late"); }) == FIRNDEX_ERROR_THREAD);
        CHECK(store->contains("late"));
    }
};

static void ends_of_threads() {
    firndex::Store store = firndex::Store::in_memory(small());
    store.put("a", "b");
    for (int round = 0; round < 3; round++) {
        std::thread([&] {
            thread_local Late late;
            late.store = &store;
            late.lent = store.lend("a");
        }).join();
        CHECK(store.get("late") == "but in time" && store.remove("late"));
    }
    store.close();
}

// A guest of another process, which is killed.
static void guests(const std::string &directory) {
    std::string path = directory + "/guests.firn";
    firndex::Options options = small();
    options.guests = FIRNDEX_YES;
    options.patience_ms = 300000;
    int ends[2];
    char byte = '+';
    CHECK(pipe(ends) == 0);
    pid_t owner = fork();
    CHECK(owner >= 0);
    if (owner == 0) {
        firndex::Table own = firndex::Table::create(path, options);
        CHECK(own.role() == FIRNDEX_OWNER && own.stats().role == FIRNDEX_OWNER && own.stats().guests == 0);
        own.put(1, 10);
        CHECK(write(ends[1], &byte, 1) == 1);
        for (;;) pause();
    }
    CHECK(read(ends[0], &byte, 1) == 1);
    firndex::Table table = firndex::Table::open(path, options);
    CHECK(table.role() == FIRNDEX_GUEST && table.get(1) == 10u);
    table.put(2, 20);
    firndex_stats stats = table.stats();
    CHECK(stats.role == FIRNDEX_GUEST && stats.guests == 1 && stats.pairs == 2);
    CHECK(thrown([&] { table.check(); }) == FIRNDEX_ERROR_FOR_OWNER);

    options.never_own = FIRNDEX_YES;
    options.patience_ms = 100;
    firndex::Table other = firndex::Table::open(path, options);
    CHECK(kill(owner, SIGKILL) == 0 && waitpid(owner, nullptr, 0) == owner);
    // A look-up may still see what the owner has shown.
    CHECK(thrown([&] { other.put(1, 11); }) == FIRNDEX_ERROR_SILENT && other.role() == FIRNDEX_GUEST);
    CHECK(table.get(2) == 20u && table.role() == FIRNDEX_OWNER);
    table.put(3, 30);
    CHECK(other.get(3) == 30u);
    other.close();
    table.close();
    table = firndex::Table::open(path, small());
    CHECK(table.size() == 3);
    table.check();
    table.close();
}

int main() {
    std::string directory = std::string(std::getenv("TMPDIR") ? std::getenv("TMPDIR") : "/tmp") + "/firndex-cpp.XXXXXX";
    CHECK(mkdtemp(directory.data()) != nullptr);
    stores(directory);
    tables(directory);
    failures();
    ends_of_threads();
    guests(directory);
    CHECK(std::system(("rm -rf '" + directory + "'").c_str()) == 0);
}
