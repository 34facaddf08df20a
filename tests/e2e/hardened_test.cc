// Protections of the linker and the compiler, read from the files of our three programs, and their
// core files, which there are none of.
#include <elf.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/cli_local_test_cluster.h"

namespace paddle::test {
namespace {

class Program {
 public:
  explicit Program(const char* path) : bytes_(TemporaryFolder::read(path)) {
    if (bytes_.size() >= sizeof head_) std::memcpy(&head_, bytes_.data(), sizeof head_);
  }

  const Elf64_Ehdr& head() const { return head_; }

  // The segment's header; all zeros if there is none.
  Elf64_Phdr segment(Elf64_Word type) const {
    for (std::size_t i = 0; i < head_.e_phnum; ++i) {
      const auto found = at<Elf64_Phdr>(head_.e_phoff + i * sizeof(Elf64_Phdr));
      if (found.p_type == type) return found;
    }
    return {};
  }

  Elf64_Xword dynamic(Elf64_Sxword tag) const {
    const Elf64_Phdr table = segment(PT_DYNAMIC);
    for (std::size_t i = 0; i < table.p_filesz / sizeof(Elf64_Dyn); ++i) {
      const auto entry = at<Elf64_Dyn>(table.p_offset + i * sizeof(Elf64_Dyn));
      if (entry.d_tag == tag) return entry.d_un.d_val;
    }
    return 0;
  }

  std::size_t count(std::string_view wanted) const {
    std::size_t found = 0;
    for (auto at = bytes_.find(wanted); at != std::string::npos; at = bytes_.find(wanted, at + 1))
      ++found;
    return found;
  }

 private:
  template <typename T>
  T at(std::size_t offset) const {
    T value{};
    if (offset + sizeof value <= bytes_.size())
      std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }

  std::string bytes_;
  Elf64_Ehdr head_{};
};

class Hardened : public testing::TestWithParam<const char*> {};

TEST_P(Hardened, IsLoadedAnywhereAndReadOnlyOnceLinked) {
  const Program program(GetParam());
  ASSERT_EQ(std::memcmp(program.head().e_ident, ELFMAG, SELFMAG), 0);
  EXPECT_EQ(program.head().e_type, ET_DYN) << "not position-independent";
  EXPECT_TRUE(program.dynamic(DT_FLAGS_1) & DF_1_PIE);
  EXPECT_EQ(program.segment(PT_GNU_RELRO).p_type, PT_GNU_RELRO);
  EXPECT_TRUE(program.dynamic(DT_FLAGS_1) & DF_1_NOW) << "tables stay writable until used";
  EXPECT_EQ(program.segment(PT_GNU_STACK).p_type, PT_GNU_STACK);
  EXPECT_FALSE(program.segment(PT_GNU_STACK).p_flags & PF_X) << "the stack can be executed";
  EXPECT_FALSE(program.dynamic(DT_RPATH) || program.dynamic(DT_RUNPATH));
}

TEST_P(Hardened, ChecksItsStackAndItsCopies) {
  const Program program(GetParam());
  EXPECT_GT(program.count("__stack_chk_fail"), 0u);
  EXPECT_GT(program.count("__explicit_bzero_chk"), 0u) << "built without FORTIFY";
  EXPECT_GT(program.count("__n < this->size()"), 0u) << "built without _GLIBCXX_ASSERTIONS";
#ifdef __x86_64__
  // Where a call may arrive: one at every function whose address is taken.
  EXPECT_GT(program.count("\xf3\x0f\x1e\xfa"), 1000u) << "built without -fcf-protection";
#endif
}

// The words that a command prints.
std::vector<std::string> words_of(const std::vector<std::string>& command) {
  const TemporaryFolder folder;
  Process asked(command, folder / "output");
  EXPECT_EQ(asked.wait(), 0) << command[0] << ": " << asked.output();
  std::istringstream text(asked.output());
  return {std::istream_iterator<std::string>(text), {}};
}

// The archives that the linker was given for a program, where they lie. What the compiler itself
// adds to a static program is not in the command.
std::vector<std::string> archives_of(const std::string& program, bool is_static) {
  std::set<std::string> names;
  if (is_static) names = {"libstdc++.a", "libgcc.a", "libgcc_eh.a", "libc.a"};
  const std::string target = program.substr(std::string(BUILD_FOLDER "/").size());
  for (const std::string& word :
       words_of({NINJA_PROGRAM, "-C", BUILD_FOLDER, "-t", "commands", "-s", target})) {
    if (word.starts_with("-l:")) names.insert(word.substr(3));
    if (word.starts_with("-l") && word[2] != ':' && is_static)
      names.insert("lib" + word.substr(2) + ".a");
    if (word.starts_with("/") && word.ends_with(".a")) names.insert(word);
  }
  std::vector<std::string> files;
  for (const std::string& name : names) {
    namespace fs = std::filesystem;
    const fs::path file = words_of({CXX_PROGRAM, "-print-file-name=" + name}).at(0);
    EXPECT_TRUE(file.is_absolute()) << name << " is not found";
    files.push_back(fs::canonical(file.parent_path()) / file.filename());
  }
  return files;
}

// An advisory is compared with these lines. A package that is missing here would be missing there.
TEST_P(Hardened, NamesTheLibrariesThatItIsLinkedWith) {
  if (!std::string(NINJA_PROGRAM).ends_with("ninja") || ::access("/usr/bin/dpkg-query", X_OK) != 0)
    GTEST_SKIP() << "needs ninja and dpkg";
  const TemporaryFolder folder;
  Process asked({GetParam(), "version", "--libraries"}, folder / "libraries");
  ASSERT_EQ(asked.wait(), 0) << asked.output();
  const std::string text = asked.output();
  const bool is_static = Program(GetParam()).segment(PT_INTERP).p_type == PT_NULL;
  std::set<std::string> named;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    static const std::regex package(R"(([a-z0-9.+-]+) [0-9]\S*)"),
        file(R"(\S+ of this machine: /\S+)");
    std::smatch found;
    EXPECT_TRUE(std::regex_match(line, found, package) ||
                (!is_static && std::regex_match(line, file)))
        << line;
    if (!found.empty()) named.insert(found[1]);
  }
  std::vector<std::string> query{"/usr/bin/dpkg-query", "-S"};
  const auto archives = archives_of(GetParam(), is_static);
  query.insert(query.end(), archives.begin(), archives.end());
  std::size_t packages = 0;
  for (const std::string& word : words_of(query)) {  // "zlib1g-dev:amd64: /usr/lib/.../libz.a"
    if (!word.ends_with(":")) continue;
    ++packages;
    EXPECT_TRUE(named.contains(word.substr(0, word.find(':')))) << word << "\n" << text;
  }
  EXPECT_GE(packages, 6U) << "of the archives";
  // Libraries of headers leave no archive.
  const std::string_view path = GetParam();
  std::vector<std::string> headers{"libfmt-dev"};
  if (path.ends_with("paddle")) headers.emplace_back("libasio-dev");
  if (!path.ends_with("agent"))
    headers.insert(headers.end(),
                   {"libcli11-dev", "libtomlplusplus-dev", "rapidjson-dev", "libboost-dev"});
  for (const std::string& package : headers) EXPECT_TRUE(named.contains(package)) << package;
  EXPECT_EQ(named.contains("libboost-dev"), !path.ends_with("agent"));
  EXPECT_EQ(named.contains("rapidjson-dev"), !path.ends_with("agent"));
}

// Shared libraries are updated with the machine, so the versions at the build are not theirs.
TEST_P(Hardened, NamesTheLibrariesOfTheMachineAsTheyAreThere) {
  const TemporaryFolder folder;
  Process asked({GetParam(), "version", "--libraries"}, folder / "libraries");
  ASSERT_EQ(asked.wait(), 0) << asked.output();
  const std::string text = "\n" + asked.output();
  if (Program(GetParam()).segment(PT_INTERP).p_type == PT_NULL) {
    EXPECT_EQ(text.find(" of this machine"), std::string::npos) << text;
    return;
  }
  int files = 0;
  const std::vector<std::string> words = words_of({"/usr/bin/ldd", GetParam()});
  for (std::size_t i = 0; i + 2 < words.size(); ++i) {  // "libssh.so.4 => /lib/.../libssh.so.4"
    if (words[i + 1] != "=>") continue;
    ++files;
    const std::string line = fmt::format("\n{} of this machine: {}\n", words[i],
                                         std::filesystem::canonical(words[i + 2]).string());
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
  EXPECT_GE(files, 5) << "libssh, libcrypto, libstdc++, libgcc_s and libc";
  for (const char* const package : {"libssh-dev", "libssl-dev", "libc6-dev", "libstdc++-"})
    EXPECT_EQ(text.find(fmt::format("\n{}", package)), std::string::npos) << text;
}

INSTANTIATE_TEST_SUITE_P(Programs, Hardened,
                         testing::Values(PADDLE_PROGRAM, AGENT_BINARY, PADDLECTL_PROGRAM),
                         [](const auto& program) {
                           std::string name(program.param);
                           name.erase(0, name.rfind('/') + 1);
                           std::erase(name, '-');
                           return name;
                         });

// With a limit of its own, which what it starts inherits.
class CoreDumps : public testing::Test {
 protected:
  static constexpr rlim_t kLimit = 3 << 20;

  void SetUp() override {
    ASSERT_EQ(::getrlimit(RLIMIT_CORE, &before_), 0);
    rlimit limit = before_;
    limit.rlim_cur = kLimit;
    if (::setrlimit(RLIMIT_CORE, &limit) != 0) GTEST_SKIP() << "no core files here";
  }
  void TearDown() override { ::setrlimit(RLIMIT_CORE, &before_); }

  static std::string limit_of(int pid) {
    const std::string limits = TemporaryFolder::read(fmt::format("/proc/{}/limits", pid));
    const auto line = limits.find(kLine);
    const auto at = limits.find_first_not_of(' ', line + kLine.size());
    return line == std::string::npos ? "" : limits.substr(at, limits.find(' ', at) - at);
  }
  // Ends it by a signal that leaves a core file where that is not turned off.
  static bool leaves_core(const Process& process) {
    process.signal(SIGQUIT);
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(process.pid()), &info, WEXITED | WNOWAIT);
    return info.si_code == CLD_DUMPED;
  }

  static constexpr std::string_view kLine = "Max core file size";
  LocalCluster cluster{1};

 private:
  rlimit before_{};
};

TEST_F(CoreDumps, AreOffInPaddlectlAndItsAgentButNotInWhatTheyRun) {
  ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  Process paddlectl = cluster.start(
      {"exec", "--stream", "--", "sh", "-c", "grep core /proc/self/limits; exec sleep 60"});
  ASSERT_TRUE(paddlectl.prints(std::to_string(kLimit))) << paddlectl.output();
  int agents = 0;
  for (const int pid : cluster.processes()) {
    const std::string name = TemporaryFolder::read(fmt::format("/proc/{}/comm", pid));
    if (name != "paddlectl-agent\n") continue;  // the shell that started it
    ++agents;
    EXPECT_EQ(limit_of(pid), "1") << pid;
  }
  EXPECT_EQ(agents, 1);
  struct stat info {};
  ASSERT_EQ(::stat(fmt::format("/proc/{}", paddlectl.pid()).c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 0U) << "other programs of this user can read its memory";
  const bool has_pipe = TemporaryFolder::read("/proc/sys/kernel/core_pattern").starts_with('|');
  if (!has_pipe) {
    Process other(
        {"/usr/bin/env", "-C", cluster.folder().path(), "sh", "-c", "echo here; exec sleep 60"},
        cluster.folder() / "sleep.txt");
    ASSERT_TRUE(other.prints("here"));  // its core file belongs in its own folder
    if (!leaves_core(other)) GTEST_SKIP() << "nothing leaves a core file here";
    EXPECT_FALSE(leaves_core(paddlectl));
  }
}

TEST_F(CoreDumps, AreOffInTheEngineWhileItHasKeys) {
  const std::string key = cluster.folder().write("key", std::string(32, 'k'));
  ASSERT_EQ(::chmod(key.c_str(), 0600), 0);
  for (const bool has_key : {true, false}) {
    std::vector<std::string> arguments{
        PADDLE_PROGRAM, "pserver",
        fmt::format("--port={}", cluster.first_port() + (has_key ? 0 : 1)), "--ports_num=1"};
    if (has_key) arguments.push_back("--key_file=" + key);
    Process pserver(arguments, cluster.folder() / fmt::format("pserver-{}.txt", has_key));
    ASSERT_TRUE(pserver.prints("READY")) << pserver.output();
    EXPECT_EQ(limit_of(pserver.pid()), has_key ? "1" : std::to_string(kLimit));
  }
}

}  // namespace
}  // namespace paddle::test
