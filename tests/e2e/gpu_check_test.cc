// scripts/gpu_check, as a machine with a GPU runs it: on the tests' card of host memory, and with
// programs in place of the real ones that fail, hang or crash. Its table has a row for each step.
#include <filesystem>
#include <regex>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

constexpr auto kDeadline = std::chrono::seconds(280);

// Prints the lines of a test program whose only test passes.
constexpr const char* kPasses = R"(echo '[==========] Running 1 test'
echo "[ RUN      ] $suite.Works"
echo '[==========] 1 test from 1 test suite ran. (1 ms total)'
echo '[  PASSED  ] 1 test.')";

// A gpu_test that behaves as a script says for each suite.
std::string test_program(const std::string& hold, const std::string& by_suite) {
  return fmt::format(R"(case "$*" in
  --hold) {} ;;
  --gtest_list_tests)
    printf 'Renamed.\n  Gone\nDeviceCosts.\n  Works\nGroupOnCard.\n  Works\nContractOfProducts.\n'
    printf '  Works\nExecutorOnCard.\n  Works\nContract.\n  Works\n'
    exit ;;
esac
suite=${{1#--gtest_filter=}}
suite=${{suite%%.*}}
case $suite in
{}
esac
{})",
                     hold, by_suite, kPasses);
}
constexpr const char* kHolds = "echo 'card 0 is Stub'; exec sleep 1000";

struct Ended {
  int code = -1;
  std::string output;
};

class GpuCheck : public testing::Test {
 protected:
  GpuCheck() {
    copy(GPU_CHECK_SCRIPT, "scripts/gpu_check");
    fs::create_directory_symlink(TEMPLATES_FOLDER, folder_ / "templates");
    program("bench/gpu", "echo \"bench $*\"; echo 'network  batch'; echo 'target 13: reached'");
    program("stubs/nvidia-smi", "echo 'Stub H100, 580.159.03, 81559 MiB, 0 MiB'");
    program("stubs/ncu", "echo '\"Kernel Name\",\"Metric Value\"'");
    // Runs the program behind its options.
    program("stubs/compute-sanitizer", R"(echo '========= COMPUTE-SANITIZER'
while [ ! -x "$1" ]; do shift; done
"$@" || exit 9
echo '========= ERROR SUMMARY: 0 errors')");
    program("build/gpu/bin/cuda_test", std::string("suite=Library\n") + kPasses);
    program("build/gpu/bin/gpu_bench", "exit");
    fs::create_symlink(FAKE_GPU_PROGRAM, folder_ / "build/gpu/bin/paddle-gpu");
  }

  void copy(const std::string& from, const std::string& to) {
    fs::create_directories(fs::path(folder_ / to).parent_path());
    fs::copy_file(from, folder_ / to, fs::copy_options::overwrite_existing);
  }
  void program(const std::string& name, const std::string& script) {
    fs::remove(folder_ / name);  // it may be a link to a program of the build
    fs::permissions(folder_.write(name, "#!/bin/sh\n" + script + "\n"), fs::perms::owner_all);
  }
  Process begin(const std::string& options, std::vector<std::string> environment = {}) {
    environment.push_back("PATH=" + folder_ / "stubs" + ":/usr/bin:/bin");
    environment.emplace_back("CUDA_HOME=/nonexistent");
    environment.push_back("OUT=" + folder_ / "out");
    return Process({folder_ / "scripts/gpu_check", options}, folder_ / "output", environment);
  }
  Ended run(const std::string& options, std::vector<std::string> environment = {}) {
    Process process = begin(options, std::move(environment));
    const int code = process.wait(kDeadline).value_or(-1);
    return {code, process.output()};
  }
  // The text behind the name and the seconds in a row of the table; empty: there is no such row.
  std::string row(const std::string& name) const {
    const std::string table = TemporaryFolder::read(folder_ / "out/table.txt");
    std::smatch match;
    const std::regex pattern("(?:^|\n)" + name + " +(?:[0-9]+ s|-)  ([^\n]*)");
    return std::regex_search(table, match, pattern) ? match[1].str() : "";
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    std::istringstream table(TemporaryFolder::read(folder_ / "out/table.txt"));
    const std::regex pattern("([A-Za-z_.-]+) +(?:[0-9]+ s|-)  .*");
    std::smatch match;
    for (std::string line; std::getline(table, line);) {
      if (std::regex_match(line, match, pattern)) names.push_back(match[1]);
    }
    return names;
  }

  TemporaryFolder folder_;
};

// All suites of the program that machines with a card get, by the filters that they get there.
TEST_F(GpuCheck, RunsAllTestsOnACardOfHostMemory) {
  fs::create_symlink(FAKE_CARD_TEST, folder_ / "build/gpu/bin/gpu_test");
  const Ended ended = run("--built");
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_EQ(row("card"), "Stub H100, 580.159.03, 81559 MiB, 0 MiB");
  EXPECT_EQ(row("version"), "fake driver of 1 cards in host memory");
  EXPECT_TRUE(row("program").starts_with("skipped: ")) << row("program");
  const std::vector<std::string> all = names();
  const std::vector<std::string> in_order{"card",        "version",           "cuda_test",
                                          "Contract",    "ContractDeathTest", "ContractOfProducts",
                                          "DeviceCosts", "ExecutorOnCard",    "TrainingOnCard",
                                          "GroupOnCard", "memcheck",          "initcheck",
                                          "synccheck",   "figures",           "durations"};
  auto place = all.begin();
  for (const std::string& name : in_order) {
    place = std::find(place, all.end(), name);
    ASSERT_NE(place, all.end()) << name << " is missing, or too early\n" << ended.output;
  }
  for (auto one = std::find(all.begin(), all.end(), "Contract"); one != all.end(); ++one) {
    EXPECT_TRUE(row(*one).starts_with("passed")) << *one << ": " << row(*one);
  }
  EXPECT_EQ(row("ContractDeathTest"), "passed: 1");
  EXPECT_NE(ended.output.find("target 13: reached\nall: "), std::string::npos) << "at the end";
  EXPECT_NE(ended.output.find("bench --build build/gpu --peer-python python3"), std::string::npos);
  for (const char* const log : {"version", "hold", "Contract", "memcheck", "figures"}) {
    EXPECT_TRUE(fs::exists(folder_ / fmt::format("out/{}.log", log))) << log;
  }
}

TEST_F(GpuCheck, EachFailureHasItsRowAndTheOthersRunOn) {
  program("build/gpu/bin/gpu_test", test_program(kHolds, R"(  ContractOfProducts)
    echo '[ RUN      ] ContractOfProducts.Hangs'
    exec sleep 1000 ;;
  DeviceCosts)
    echo '[ RUN      ] DeviceCosts.Crashes'
    echo 'the last line'
    kill -SEGV $$ ;;
  ExecutorOnCard)
    echo '[==========] Running 2 tests'
    echo '[ RUN      ] ExecutorOnCard.Works'
    echo '[ RUN      ] ExecutorOnCard.Fails'
    echo 'unknown file: Failure'
    echo "C++ exception with description \"${PADDLE_CUDA_SYNC:+kernel Fill: }refused\""
    echo ''
    echo '[  FAILED  ] ExecutorOnCard.Fails (1 ms)'
    echo 'other.cc:1: Failure'
    echo '[  PASSED  ] 1 test.'
    echo '[  FAILED  ] 1 test, listed below:'
    exit 1 ;;
  GroupOnCard)
    echo '[ RUN      ] GroupOnCard.Works'
    echo 'the card cannot be opened again: it is gone'
    exit 1 ;;
  Renamed)
    echo '[==========] 0 tests from 0 test suites ran. (0 ms total)'
    echo '[  PASSED  ] 0 tests.'
    exit 0 ;;)"));
  program("stubs/compute-sanitizer", R"(echo '========= COMPUTE-SANITIZER'
echo '[ RUN      ] DeviceCosts.Works'
echo '========= Invalid __global__ read of size 4 bytes'
echo '=========     at run'
echo '[ RUN      ] DeviceSums.Works'
echo '========= ERROR SUMMARY: 1 error'
exit 9)");
  const Ended ended = run("--built", {"GPU_CHECK_STEP_SECONDS=10"});
  EXPECT_EQ(ended.code, 1) << ended.output;
  EXPECT_EQ(row("Contract"), "passed: 1");
  EXPECT_EQ(row("ContractOfProducts"),
            "ran for longer than 10 s, in ContractOfProducts.Hangs: it says nothing");
  EXPECT_EQ(row("DeviceCosts"), "ended by signal 11, in DeviceCosts.Crashes: the last line");
  const std::string refused =
      R"(1 failed, 1 passed: ExecutorOnCard.Fails: C++ exception with description ")";
  EXPECT_EQ(row("ExecutorOnCard"), refused + "refused\"");
  EXPECT_EQ(row("ExecutorOnCard.sync"), refused + "kernel Fill: refused\"");
  EXPECT_EQ(row("GroupOnCard"),
            "failed with 1: GroupOnCard.Works: the card cannot be opened again: it is gone");
  EXPECT_EQ(row("Renamed"), "no test ran");
  EXPECT_EQ(row("memcheck"),
            "failed with 9: DeviceCosts.Works: Invalid __global__ read of size 4 bytes");
  EXPECT_EQ(row("figures"), "passed");
}

// bench/gpu itself reads what the bench and the peer print.
TEST_F(GpuCheck, TheTableEndsInTheFiguresAndTheTargetsThatTheyReach) {
  copy(BENCH_GPU_SCRIPT, "bench/gpu");
  program("build/gpu/bin/gpu_test", test_program(kHolds, ""));
  const auto ours = [](const char* compute, const char* ids, double on_card, double card) {
    return fmt::format(
        R"(echo '{{"network": "ctr", "batch": 16384, "compute": "{}", "ids": "{}", "step_us": 3000.0, )"
        R"("on_card_us": {}, "card_us": {}, "products_us": 850.0, "memory_mib": 300, "cost": [2, 1]}}'
)",
        compute, ids, on_card, card);
  };
  program("build/gpu/bin/gpu_bench",
          R"(echo '{"card": "Stub", "open_s": 1.25, "cublaslt": "/cu/libcublasLt.so.13"}'
)" + ours("float32", "even", 1000, 1000) +
              ours("bf16", "even", 1000, 900) + ours("float32", "skewed", 9000, 9000));
  folder_.write("bench/peers/torch_gpu.py", R"(import json
print(json.dumps({"torch": "2.9", "open_s": 2.5}))
print(json.dumps({"network": "ctr", "batch": 16384, "compute": "float32", "eager_us": 1400.0, "graph_us": 1100.0}))
print(json.dumps({"network": "ctr", "batch": 16384, "compute": "bf16", "eager_us": 1200.0}))
)");
  const Ended ended = run("--built");
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_EQ(row("figures"), "passed");
  for (const char* const line :
       {"card: Stub, opened in 1.25 s; products by /cu/libcublasLt.so.13\n",
        "peer: PyTorch 2.9, opened in 2.50 s\n", "ctr        16384 float32     3000.0    1000.0",
        "ctr        16384 skewed      3000.0    9000.0",
        "target 8, beside PyTorch eager: 1 of 2 reached; not ctr 16384 bf16 1.20 of 1.30\n",
        "target 8, beside its CUDA graph: 1 of 1 reached\n",
        "target 9, share of the products: 2 of 2 reached\n", "target 13: opened in 1.25 s",
        "all: "}) {
    EXPECT_NE(ended.output.find(line), std::string::npos) << line << "\n" << ended.output;
  }
  // A bench that a card ends in the middle.
  program("build/gpu/bin/gpu_bench",
          "echo '{\"card\": \"Stub\", \"open_s\": 1, \"cublaslt\": \"x\"}'\n"
          "echo '{\"network\": \"ctr\", \"ba'\n"
          "echo 'card 0 (Stub): kernel Fill: an illegal address' >&2\nexit 1");
  EXPECT_EQ(run("--built").code, 1);
  EXPECT_EQ(row("figures"),
            "failed with 1: gpu_bench: card 0 (Stub): kernel Fill: an illegal address");
}

TEST_F(GpuCheck, WithoutACardItSaysSo) {
  program("stubs/nvidia-smi", "echo 'Stub H100, 570.1, 81559 MiB, 0 MiB'");
  program("build/gpu/bin/gpu_test",
          test_program("echo 'no test runs on a card: there is no driver'; exit 3", ""));
  const Ended ended = run("--built");
  EXPECT_EQ(ended.code, 3) << ended.output;
  EXPECT_EQ(row("driver"), "570 is too old: CUDA 13 needs 580 or later");
  EXPECT_EQ(row("cuda_test"), "passed: 1") << "it needs no card";
  EXPECT_EQ(row("gpu_test"), "skipped: no test runs on a card: there is no driver");
  program("build/gpu/bin/gpu_test", test_program("echo 'a library is missing'; exit 127", ""));
  EXPECT_EQ(run("--built").code, 1);
  EXPECT_EQ(row("gpu_test"), "cannot be started, status 127: a library is missing");
  fs::remove(folder_ / "build/gpu/bin/gpu_test");
  EXPECT_EQ(run("--built").code, 1);
  EXPECT_EQ(row("gpu_test"), "skipped: there is no build/gpu/bin/gpu_test");
}

// One that crashes at its end has still found the card.
TEST_F(GpuCheck, TheLineOfTheCardCountsAndNotTheStatus) {
  program("build/gpu/bin/gpu_test", test_program("echo 'card 0 is Stub'; kill -SEGV $$", ""));
  program("build/gpu/bin/paddle-gpu", "echo 'error while loading shared libraries'; exit 127");
  for (const char* const tool : {"compute-sanitizer", "ncu", "nvidia-smi"}) {
    program(std::string("stubs/") + tool, "echo 'Device not supported'; exit 1");
  }
  fs::remove(folder_ / "build/gpu/bin/cuda_test");
  const Ended ended = run("--built");
  EXPECT_EQ(ended.code, 1) << ended.output;
  EXPECT_EQ(row("Contract"), "passed: 1");
  EXPECT_EQ(row("version"),
            "it cannot be started, or says no GPU: error while loading shared libraries");
  EXPECT_NE(ended.output.find("compute-sanitizer refuses this machine's driver"),
            std::string::npos);
  EXPECT_EQ(row("cuda_test"), "skipped: there is no build/gpu/bin/cuda_test");
  EXPECT_EQ(row("durations"), "failed with 1: Device not supported");
}

TEST_F(GpuCheck, WithoutTimeLeftStepsAreSkipped) {
  program("build/gpu/bin/gpu_test", test_program(kHolds, ""));
  const Ended ended = run("--built", {"GPU_CHECK_SECONDS=0"});
  EXPECT_EQ(ended.code, 1) << ended.output;
  EXPECT_EQ(row("Contract"), "skipped: no time is left of 0 s");
  EXPECT_EQ(row("figures"), "skipped: no time is left of 0 s");
}

TEST_F(GpuCheck, ASignalEndsItWithTheTableSoFar) {
  program("build/gpu/bin/gpu_test",
          test_program(kHolds, "  ContractOfProducts) echo begun >>begun; exec sleep 1000 ;;"));
  Process process = begin("--built", {"GPU_CHECK_STEP_SECONDS=10"});
  while (!fs::exists(folder_ / "begun")) {
    ASSERT_FALSE(process.wait(std::chrono::milliseconds(20))) << process.output();
  }
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(kDeadline), 1);
  EXPECT_NE(process.output().find("ended by a signal"), std::string::npos) << process.output();
  EXPECT_EQ(row("Contract"), "passed: 1");
}

class GpuCheckArchive : public GpuCheck {
 protected:
  GpuCheckArchive() {
    program("scripts/deps", "exit");
    program("stubs/nvcc", "exit");
    program("stubs/cmake", "exit");
    program("stubs/strip", "exit");
    needs("libstdc++.so.6", "2.36");
    program("build/gpu/bin/gpu_test", test_program(kHolds, ""));
  }
  // Makes objdump print these needs for every program.
  void needs(const std::string& library, const std::string& glibc) {
    program("stubs/objdump", fmt::format(R"(printf '  NEEDED               libc.so.6\n'
printf '  NEEDED               {}\n'
printf '    0x0d696913 0x00 40 GLIBC_{}\n')",
                                         library, glibc));
  }
};

TEST_F(GpuCheckArchive, IsMadeHereAndRunThere) {
  const Ended made = run("--only-build");
  EXPECT_EQ(made.code, 0) << made.output;
  EXPECT_EQ(row("configure"), "passed");
  EXPECT_EQ(row("build"), "passed");
  EXPECT_EQ(row("pack"), "build/gpu/programs.tar.xz has 0 MiB");
  fs::remove_all(folder_ / "build/gpu/bin");
  const Ended ended = run("--built", {"GPU_CHECK_STEP_SECONDS=60"});
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_EQ(row("GroupOnCard"), "passed: 1") << ended.output;
}

TEST_F(GpuCheckArchive, IsUnpackedWithoutXzToo) {
  ASSERT_EQ(run("--only-build").code, 0);
  fs::remove_all(folder_ / "build/gpu/bin");
  program("stubs/tar", "echo 'xz: Cannot exec'; exit 2");
  EXPECT_EQ(run("--built").code, 0);
  EXPECT_EQ(row("Contract"), "passed: 1");
}

TEST_F(GpuCheckArchive, WithAProgramThatNeedsMoreIsNotMade) {
  needs("libcrypto.so.3", "2.36");
  EXPECT_EQ(run("--only-build").code, 1);
  EXPECT_EQ(row("pack"),
            "failed: paddle-gpu needs libcrypto.so.3, which a machine with a GPU may not have");
  needs("libm.so.6", "2.38");
  EXPECT_EQ(run("--only-build").code, 1);
  EXPECT_EQ(row("pack"), "failed: paddle-gpu needs glibc 2.38, above 2.36");
  needs("libm.so.6", "2.34");
  program("stubs/xz", "cat >/dev/null; head -c 42000000 /dev/zero");
  EXPECT_EQ(run("--only-build").code, 1);
  EXPECT_EQ(row("pack"), "failed: 42000000 bytes are too many to carry");
  program("stubs/cmake", "echo 'no such preset'; exit 1");
  EXPECT_EQ(run("--only-build").code, 1);
  EXPECT_EQ(row("configure"), "failed with 1: no such preset");
}

TEST_F(GpuCheck, OptionsThatItDoesNotKnowAreRefused) {
  const Ended ended = run("--fast");
  EXPECT_EQ(ended.code, 2);
  EXPECT_TRUE(ended.output.starts_with("usage: scripts/gpu_check")) << ended.output;
}

}  // namespace
}  // namespace paddle::test
