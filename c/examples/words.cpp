// Counts the words of some files, with a thread for each: words POOL FILE...

#include <firndex.hpp>

#include <charconv>
#include <fstream>
#include <iostream>
#include <thread>

static std::uint64_t number(std::string_view text) {
    std::uint64_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
}

static void count(firndex::Store &words, const char *path) {
    std::ifstream file(path);
    for (std::string word; file >> word;) {
        words.modify(word, [](std::optional<std::string_view> before) -> std::optional<std::string> {
            return std::to_string(before ? number(*before) + 1 : 1);
        });
    }
}

int main(int argc, char **argv) {
    if (argc < 2) {
        std::cerr << "usage: words POOL FILE...\n";
        return 2;
    }
    try {
        firndex::Store words = firndex::Store::open_or_create(argv[1]);
        std::vector<std::thread> threads;
        for (int i = 2; i < argc; i++) {
            threads.emplace_back([&words, path = argv[i]] {
                try {
                    count(words, path);
                } catch (const firndex::Error &error) {
                    std::cerr << "words: " << path << ": " << error.what() << '\n';
                }
            });
        }
        for (std::thread &thread : threads) thread.join();
        for (const auto &[word, times] : words) std::cout << times << ' ' << word << '\n';
        words.close();
    } catch (const firndex::Error &error) {
        std::cerr << "words: " << error.what() << " (" << error.name() << ")\n";
        return 2;
    }
}
