// Tests of a card, and two commands for scripts/gpu_check and the tests themselves.
// usage: gpu_test [--gtest_...]      runs tests; GPU_TEST_OWN_BLOCKS=1: see shared_memory.h
//        gpu_test --hold             opens the card and keeps it open until a signal
//        gpu_test --sums RANK RANKS FILE [--last-dies]
// Exits with 3 if there is no card.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tests/gpu/card.h"
#include "tests/gpu/sums.h"

namespace paddle::test {
namespace {

constexpr int kNoCard = 3;

// Ends the process without destructors: those of the tests' own objects would touch memory that
// the driver of the card has taken back by then.
[[noreturn]] void leave(int code) {
  std::fflush(nullptr);
  std::_Exit(code);
}

int say(const char* what, const Error& error, int code) {
  std::printf("%s: %s\n", what, error.message.c_str());
  return code;
}

// Gives each test a card that works, and tests of kernels memory that the card sees.
class EachTest : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override {
    // After some failures a process cannot use its card any more.
    if (const Status opened = open_card(); !opened) {
      leave(say("the card cannot be opened again", opened.error(), 1));
    }
    share_memory(std::string_view(test.test_suite_name()).starts_with("Device"));
  }
  void OnTestEnd(const testing::TestInfo& /*test*/) override { share_memory(false); }
};

int run_tests() {
  if (testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  const char* const own = std::getenv("GPU_TEST_OWN_BLOCKS");  // NOLINT: no thread sets variables
  set_shared_source(shared_source(), own != nullptr && *own == '1');
  testing::UnitTest::GetInstance()->listeners().Append(new EachTest());
  return RUN_ALL_TESTS();
}

int hold() {
  for (;;) ::pause();
}

int run(const std::vector<std::string>& arguments) {
  const std::string command = arguments.empty() ? "" : arguments[0];
  const bool is_list = testing::GTEST_FLAG(list_tests);
  if (!is_list) {
    if (const Status opened = open_card(); !opened) {
      return say("no test runs on a card", opened.error(), kNoCard);
    }
    std::printf("card 0 is %s\n", card().card().name.c_str());
    std::fflush(stdout);
  }
  if (command == "--hold") return hold();
  if (command == "--sums" && arguments.size() >= 4) {
    const SumsOptions options{.rank = static_cast<std::uint32_t>(std::stoul(arguments[1])),
                              .ranks = static_cast<std::uint32_t>(std::stoul(arguments[2])),
                              .id_file = arguments[3],
                              .last_dies = arguments.back() == "--last-dies"};
    const Status summed = sum_with_others(options);
    return summed ? 0 : say("the sum failed", summed.error(), 1);
  }
  return run_tests();
}

}  // namespace
}  // namespace paddle::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  paddle::test::leave(paddle::test::run({argv + 1, argv + argc}));
}
