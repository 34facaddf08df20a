// Local nodes in everyday use: commands from a subfolder, nodes prepared by the workspace.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <thread>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/cli_local_test_cluster.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

struct DailyUse : testing::Test {
  LocalCluster cluster{2};

  static bool wait_until(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
  }
};

constexpr off_t kHoleBytes = 4 << 20;

// A tree of everything that a copy keeps, with times in the past.
void make_tree(const fs::path& tree) {
  fs::create_directories(tree / "empty/in empty");
  fs::create_directories(tree / "open");
  fs::create_directories(tree / "closed/below");
  const auto write = [&](const std::string& name, const std::string& text, fs::perms mode) {
    std::ofstream(tree / name, std::ios::binary) << text;
    fs::permissions(tree / name, mode);
  };
  write("open/shared", "for the group", fs::perms(0664));
  write("closed/read only", "for reading", fs::perms(0444));
  write("closed/below/program", "#!/bin/sh\n", fs::perms(0755));
  write("none", "", fs::perms(0600));
  std::string name;
  for (int i = 0; i < 127; ++i) name += "п";
  write(name + "x", "a name of 255 bytes", fs::perms(0644));
  write("sparse", "begin", fs::perms(0644));
  fs::resize_file(tree / "sparse", kHoleBytes);
  std::ofstream(tree / "sparse", std::ios::binary | std::ios::app) << "end";
  fs::create_symlink("/usr/bin/python3", tree / "absolute");
  fs::create_symlink("../closed/below/program", tree / "open/relative");
  fs::create_symlink("nothing/is here", tree / "dangling");
  fs::permissions(tree / "open", fs::perms(0751));
  fs::permissions(tree / "closed/below", fs::perms(0775));
  fs::permissions(tree / "closed", fs::perms(0555));
  std::vector<fs::path> all{tree};
  for (const auto& entry : fs::recursive_directory_iterator(tree)) all.push_back(entry.path());
  time_t second = 1'000'000'000;
  for (const fs::path& path : all) {
    const timespec times[2] = {{second, 0}, {second, 123'456'789}};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW), 0) << path;
    second += 1'000'000;
  }
}

// Everything about each entry that a copy keeps, by its path. Of the modes of files and
// folders, it has the bits in `mode_kept`.
std::map<std::string, std::string> described(const fs::path& tree, mode_t mode_kept = 07777) {
  std::vector<fs::path> all{tree};
  for (const auto& entry : fs::recursive_directory_iterator(tree)) all.push_back(entry.path());
  std::map<std::string, std::string> found;
  for (const fs::path& path : all) {
    struct stat info {};
    EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
    const mode_t kept = S_ISLNK(info.st_mode) ? 07777 : mode_kept;
    std::string text = fmt::format("{:o} at {}.{}", info.st_mode & (S_IFMT | kept),
                                   info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
    if (S_ISLNK(info.st_mode)) text += " -> " + fs::read_symlink(path).string();
    if (S_ISREG(info.st_mode)) {
      const std::string content = TemporaryFolder::read(path);
      text += fmt::format(", {} bytes, hash {}", content.size(), std::hash<std::string>()(content));
      if (info.st_size > kHoleBytes && info.st_blocks * 512 < kHoleBytes / 2) text += ", a hole";
    }
    found[path.lexically_relative(tree).string()] = text;
  }
  return found;
}

TEST_F(DailyUse, CommandsWorkInSubfoldersAndLeaveOutputThere) {
  cluster.copy_template("quick_start");
  const Outcome prepared = cluster.prepare("quick_start", {"--shards", "2"}, labelled_texts(400));
  ASSERT_EQ(prepared.code, 0) << prepared.output;
  ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  const auto in_workspace = [&](std::vector<std::string> arguments) {
    return cluster.run_in("quick_start", std::move(arguments));
  };
  const Outcome train = in_workspace(
      {"train", "--trainers", "1", "--pservers", "1", "--name", "job", "--set", "train.passes=1"});
  ASSERT_EQ(train.code, 0) << train.output;
  EXPECT_TRUE(fs::exists(cluster.folder() / "quick_start/output/job/report.html"));
  EXPECT_EQ(in_workspace({"status", "job"}).code, 0);
  EXPECT_EQ(in_workspace({"teardown", "--yes", "--discard"}).code, 0);
  EXPECT_TRUE(cluster.nothing_left()) << "the parent's current cluster is forgotten too";
}

TEST_F(DailyUse, NobodyElseMayWriteWhatItMakesWhateverTheUmask) {
  const std::string write = "mkdir -p $PADDLE_INIT_SAVE_DIR/d; echo x > $PADDLE_INIT_SAVE_DIR/d/x";
  cluster.folder().write("own/job.toml",
                         "[trainer]\ncommand = [\"sh\", \"-c\", \"" + write + "\"]\n");
  const mode_t before = ::umask(0);
  EXPECT_EQ(cluster.run({"init", "--template", "digits", "new"}).code, 0);
  EXPECT_EQ(cluster.run({"init", "--local", "new.toml"}).code, 0);
  EXPECT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  const Outcome train =
      cluster.run({"train", "--trainers", "1", "--pservers", "1", "--name", "job", "own"});
  EXPECT_EQ(train.code, 0) << train.output;
  EXPECT_EQ(cluster.run({"get", cluster.folder() / "cluster.toml", "taken"}).code, 0);
  ::umask(before);
  int seen = 0;
  for (const char* const made :
       {"new", "new.toml", "output/job/d/x", "output", ".paddlectl", "nodes", "taken"}) {
    ASSERT_TRUE(fs::exists(cluster.folder() / made)) << made;
    std::vector<fs::path> all{cluster.folder() / made};
    if (fs::is_directory(all[0])) {
      for (const auto& entry : fs::recursive_directory_iterator(all[0]))
        all.push_back(entry.path());
    }
    for (const fs::path& path : all) {
      if (fs::is_symlink(path)) continue;
      const auto open = fs::perms::group_write | fs::perms::others_write;
      EXPECT_EQ(fs::status(path).permissions() & open, fs::perms::none) << path;
      ++seen;
    }
  }
  EXPECT_GT(seen, 20);
  EXPECT_EQ(cluster.run({"teardown", "--yes", "--discard"}).code, 0);
}

// As Windows programs save a text: with a byte order mark, and CRLF at the ends of lines.
TEST_F(DailyUse, PrepareMakesTheSameDataOfATextFromWindows) {
  std::string ratings, digits;
  for (int i = 0; i < 60; ++i) {
    ratings += fmt::format("{}\t{}\t{}\t{}\n", i % 9 + 1, i % 7 + 1, i % 5 + 1, i);
    for (int j = 0; j < 64; ++j) digits += fmt::format("{},", (i + j) % 16 + 1);
    digits += fmt::format("{}\n", 9 - i % 10);
  }
  const std::tuple<const char*, std::vector<std::string>, std::string> templates[] = {
      {"quick_start", {}, labelled_texts(60)},
      {"word2vec", {"--minimum", "1"}, chained_sentences(60)},
      {"word2vec", {"--minimum", "1", "--keep-tokens"}, chained_sentences(60)},
      {"recommender", {}, ratings},
      {"digits", {}, digits}};
  for (const auto& [name, options, text] : templates) {
    cluster.copy_template(name);
    const auto data_of = [&](const std::string& given) {
      const fs::path data = cluster.folder() / (std::string(name) + "/data");
      fs::remove_all(data);
      const Outcome prepared = cluster.prepare(name, options, given);
      EXPECT_EQ(prepared.code, 0) << name << "\n" << prepared.output;
      std::map<std::string, std::string> files;
      if (prepared.code != 0) return files;
      for (const auto& file : fs::directory_iterator(data))
        files[file.path().filename()] = TemporaryFolder::read(file.path());
      return files;
    };
    std::string windows = "\xef\xbb\xbf";
    for (const char c : text) windows += c == '\n' ? std::string("\r\n") : std::string(1, c);
    const auto expected = data_of(text);
    EXPECT_GT(expected.size(), 1U) << name;
    EXPECT_EQ(data_of(windows), expected) << name;
    fs::remove_all(cluster.folder() / name);
  }
}

TEST_F(DailyUse, PutAndGetKeepATreeAsItIsBothWays) {
  const fs::path folder = cluster.folder().path();
  make_tree(folder / "tree");
  if (HasFatalFailure()) return;
  fs::create_directory(folder / "there");
  ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  const auto tree = described(folder / "tree");
  EXPECT_EQ(tree.size(), 15U);
  // The mode of a fetched file: paddlectl takes away the right of other users to write.
  constexpr mode_t kKeptHere = 07755;
  for (const char* const again : {"", " again"}) {
    if (*again != 0 && ::geteuid() != 0) break;  // only root writes into a closed folder again
    const Outcome put = cluster.run({"put", "--on", "n-0", "tree", folder / "there/"});
    EXPECT_EQ(put.code, 0) << put.output;
    EXPECT_EQ(described(folder / "there/tree"), tree) << "on the node" << again;
    const Outcome get = cluster.run({"get", folder / "there/tree", "back"});
    EXPECT_EQ(get.code, 0) << get.output;
    for (const char* const node : {"n-0", "n-1"}) {
      EXPECT_EQ(described(folder / "back" / node / "tree"), described(folder / "tree", kKeptHere))
          << "from " << node << again;
    }
  }
  for (const char* const copy : {"tree", "there/tree", "back/n-0/tree", "back/n-1/tree"})
    fs::permissions(folder / copy / "closed", fs::perms::owner_all);  // so that it can be removed
  EXPECT_EQ(cluster.run({"teardown", "--yes", "--discard"}).code, 0);
  EXPECT_TRUE(cluster.nothing_left());
}

TEST_F(DailyUse, CtrlCEndsASilentCommandOfExecOnEveryNode) {
  ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  const std::string begun = cluster.folder().make("begun");
  const std::string begin = fmt::format("cd '{}'; echo $$ > $$; ", begun);
  const std::string endless = "while :; do sleep 1000; done";
  const std::vector<std::string> commands[] = {
      {"exec", "--", "sh", "-c", begin + "exec sleep 1000"},
      {"exec", "--stream", "--shell", begin + "exec sleep 1000"},
      {"exec", "--json", "--shell", begin + endless},
      {"exec", "--timeout", "1000", "--shell", begin + "trap '' TERM; " + endless},
      {"exec", "--shell", begin + "sleep 1000 & sleep 1000 & wait"},
  };
  for (const auto& command : commands) {
    Process exec = cluster.start(command);
    EXPECT_TRUE(wait_until([&] {
      return std::distance(fs::directory_iterator(begun), fs::directory_iterator()) == 2;
    })) << exec.output();
    exec.signal(SIGINT);
    EXPECT_EQ(exec.wait(), 130) << command.back();
    const std::string output = exec.output();
    EXPECT_NE(output.find("interrupted; the command no longer runs on any node"), std::string::npos)
        << output;
    EXPECT_EQ(output.find("not run"), std::string::npos) << output;
    EXPECT_EQ(output.find("result unknown"), std::string::npos) << output;
    EXPECT_TRUE(cluster.all_gone()) << command.back();
    for (const auto& file : fs::directory_iterator(begun)) fs::remove(file);
  }
  const Outcome after = cluster.run({"exec", "--", "true"});
  EXPECT_EQ(after.code, 0) << after.output;
  EXPECT_EQ(cluster.run({"teardown", "--yes", "--discard"}).code, 0);
}

TEST_F(DailyUse, ACostThatDivergesWithTheFirstBatchIsToldByTrain) {
  cluster.copy_template("quick_start");
  ASSERT_EQ(cluster.prepare("quick_start", {"--shards", "2"}, labelled_texts(4000)).code, 0);
  ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  const Outcome train = cluster.run({"train", "--trainers", "2", "--pservers", "1", "--name", "job",
                                     "--json", "--set", "train.passes=1", "--set",
                                     "optimizer.learning_rate=1e30", "quick_start"});
  EXPECT_EQ(train.code, 0) << train.output;
  EXPECT_TRUE(train.says("warning: training diverges: the cost is ")) << train.output;
  EXPECT_TRUE(train.says("\"diverged\": true")) << train.output;
  EXPECT_TRUE(train.says("warning: training diverged: the cost went from 0.69")) << train.output;
  const Outcome status = cluster.run({"status"});
  EXPECT_TRUE(status.says("warning: training diverges: the cost is ")) << status.output;
  EXPECT_TRUE(cluster.run({"status", "--json"}).says("\"diverged\": true"));
  EXPECT_EQ(cluster.run({"teardown", "--yes", "--discard"}).code, 0);
}

// A batch size that is left out would end it at once: the data would be read in other batches.
TEST_F(DailyUse, TheLineThatResumesAJobIsTypedAsItIsPrinted) {
  cluster.copy_template("quick_start");
  ASSERT_EQ(cluster.prepare("quick_start", {"--shards", "2"}, labelled_texts(400)).code, 0);
  ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  const std::string flags =
      "--trainers 2 --pservers 1 --set train.passes=1000000 --set train.batch_size=1 "
      "--set 'optimizer.learning_rate_schedule = \"constant\"' --env COLOUR --restarts 2 "
      "quick_start";
  const auto type = [&](const std::string& line, const std::string& output) {
    return Process({"/usr/bin/env", "-C", cluster.folder().path(), "/bin/sh", "-c", line},
                   cluster.folder() / output,
                   {"COLOUR=blue", "PATH=" + fs::path(PADDLECTL_PROGRAM).parent_path().string() +
                                       ":/usr/bin:/bin"});
  };
  Process train = type("exec paddlectl train --name job " + flags, "first.txt");
  ASSERT_TRUE(train.prints("held-out cost ")) << train.output();
  ASSERT_EQ(cluster.run({"stop"}).code, 0);
  EXPECT_EQ(train.wait(), 75) << train.output();
  const std::string printed = train.output();
  const std::string lead = "export COLOUR, then resume with: ";
  const std::size_t begin = printed.find(lead);
  ASSERT_NE(begin, std::string::npos) << printed;
  const std::string line =
      printed.substr(begin + lead.size(), printed.find('\n', begin) - begin - lead.size());
  EXPECT_EQ(line, "paddlectl train --resume --name job " + flags);
  Process again = type("exec " + line, "second.txt");
  EXPECT_TRUE(again.prints("continuing in pass ")) << again.output();
  EXPECT_TRUE(again.prints("held-out cost ")) << again.output();
  const Outcome stop = cluster.run({"stop"});
  EXPECT_TRUE(stop.says(lead + "paddlectl train --resume --name job ")) << stop.output;
  EXPECT_EQ(again.wait(), 75) << again.output();
  // Without an option it goes on as it was.
  Process bare = type("exec paddlectl train --resume --name job", "third.txt");
  EXPECT_TRUE(bare.prints("continuing in pass ")) << bare.output();
  EXPECT_TRUE(bare.prints("held-out cost ")) << bare.output();
  EXPECT_EQ(cluster.run({"stop"}).code, 0);
  EXPECT_EQ(bare.wait(), 75) << bare.output();
  EXPECT_EQ(bare.output().find("changed since the last run"), std::string::npos) << bare.output();
  const std::string log = TemporaryFolder::read(cluster.folder() / "output/job/node_0/train.log");
  EXPECT_NE(log.find("batches of 1\n"), std::string::npos) << log;
  EXPECT_FALSE(std::regex_search(log, std::regex("batches of (?!1\n)"))) << log;
  EXPECT_EQ(cluster.run({"teardown", "--yes", "--discard"}).code, 0);
}

// The order reaches the program in the pipe first, and its end looks like bad data.
TEST_F(DailyUse, AStopAtOnceIsNoFaultOfTheProgramThatDataPassesThrough) {
  cluster.copy_template("quick_start");
  ASSERT_EQ(cluster.prepare("quick_start", {"--shards", "2"}, labelled_texts(400)).code, 0);
  ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  Process train =
      cluster.start({"train", "--trainers", "2", "--pservers", "1", "--name", "job", "--set",
                     R"(data.pipe_command=["sh", "-c", "cat; sleep 1000"])", "quick_start"});
  ASSERT_TRUE(train.prints("pass 1/")) << train.output();
  const Outcome stop = cluster.run({"stop", "--now"});
  EXPECT_EQ(stop.code, 0) << stop.output;
  EXPECT_EQ(train.wait(), 130) << train.output();
  EXPECT_NE(train.output().find("job was ended by paddlectl stop --now of "), std::string::npos)
      << train.output();
  const Outcome status = cluster.run({"status"});
  EXPECT_TRUE(status.says("trainer-0  stopped")) << status.output;
  EXPECT_FALSE(status.says("code 6")) << status.output;
  EXPECT_EQ(cluster.run({"teardown", "--yes", "--discard"}).code, 0);
}

TEST_F(DailyUse, ASetupRunsOnceANodeForTheSameFiles) {
  cluster.folder().write(
      "own/job.toml", "[trainer]\ncommand = [\".setup/hello\"]\nsetup = [\"sh\", \"setup.sh\"]\n");
  const std::string good =
      "echo setting up\nprintf '#!/bin/sh\\necho hello\\n' > $SETUP_DIR/hello\n"
      "chmod +x $SETUP_DIR/hello\n";
  cluster.folder().write("own/setup.sh", good);
  ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  const auto train = [&](const std::string& job) {
    return cluster.run({"train", "--trainers", "1", "--pservers", "1", "--name", job, "own"});
  };
  for (const char* const job : {"one", "two"}) {
    const Outcome done = train(job);
    ASSERT_EQ(done.code, 0) << done.output;
    EXPECT_TRUE(cluster.run({"logs", job, "--role", "trainer"}).says("| hello\n"));
  }
  EXPECT_EQ(TemporaryFolder::read(cluster.folder() / "output/one/node_0/setup.log"),
            "setting up\n");
  EXPECT_FALSE(fs::exists(cluster.folder() / "output/two/node_0/setup.log")) << "not run again";
  cluster.folder().write("own/setup.sh", "echo no such package\nexit 3\n");
  const Outcome failed = train("three");
  EXPECT_EQ(failed.code, 1);
  EXPECT_TRUE(
      failed.says("the setup (sh setup.sh) exited with code 3; nothing was started; its last "
                  "lines:\nno such package\n"))
      << failed.output;
  EXPECT_EQ(cluster.run({"teardown", "--yes", "--discard"}).code, 0);
  EXPECT_TRUE(cluster.nothing_left());
}

// A package of two lines as a wheel, which needs no network and no builder.
constexpr const char* kMakeWheel = R"~(import sys, zipfile
version = sys.argv[2]
with zipfile.ZipFile(f"{sys.argv[1]}/greeter-{version}-py3-none-any.whl", "w") as wheel:
    info = f"greeter-{version}.dist-info"
    wheel.writestr("greeter.py", f"def greet():\n    return 'hello {version}'\n")
    wheel.writestr(f"{info}/METADATA",
                   f"Metadata-Version: 2.1\nName: greeter\nVersion: {version}\n")
    wheel.writestr(f"{info}/WHEEL",
                   "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(f"{info}/RECORD", "")
)~";

TEST_F(DailyUse, RequirementsAreInstalledOnceFromWheelsInTheWorkspace) {
  if (std::system("python3 -c 'import ensurepip' 2>/dev/null") != 0)
    GTEST_SKIP() << "python3-venv is not installed";
  const std::string own = cluster.folder() / "own";
  cluster.folder().write("wheel.py", kMakeWheel);
  cluster.folder().write("own/job.toml",
                         "[trainer]\ncommand = [\"python3\", \"train.py\"]\n"
                         "requirements = \"requirements.txt\"\n");
  cluster.folder().write("own/train.py", "import greeter\nprint(greeter.greet())\n");
  fs::create_directories(own + "/wheels");
  ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  const auto train = [&](const std::string& job, const std::string& version) {
    cluster.folder().write("own/requirements.txt", "greeter==" + version + "\n");
    return cluster.run({"train", "--trainers", "1", "--name", job, "own"});
  };
  const auto make_wheel = [&](const std::string& version) {
    const std::string command =
        "python3 '" + (cluster.folder() / "wheel.py") + "' '" + own + "/wheels' " + version;
    ASSERT_EQ(std::system(command.c_str()), 0);
  };
  make_wheel("1.0");
  for (const char* const job : {"one", "two"}) {
    const Outcome done = train(job, "1.0");
    ASSERT_EQ(done.code, 0) << done.output;
    EXPECT_TRUE(cluster.run({"logs", job, "--role", "trainer"}).says("| hello 1.0\n"));
  }
  EXPECT_TRUE(fs::exists(cluster.folder() / "output/one/node_0/requirements.log"));
  EXPECT_FALSE(fs::exists(cluster.folder() / "output/two/node_0/requirements.log")) << "once";
  cluster.folder().write("own/requirements.txt", "./wheels/none.whl\n");
  const Outcome failed = cluster.run({"train", "--trainers", "1", "--name", "four", "own"});
  EXPECT_EQ(failed.code, 1) << failed.output;
  EXPECT_TRUE(failed.says("pip install -r requirements.txt exited with code")) << failed.output;
  EXPECT_TRUE(failed.says("none.whl")) << failed.output;
  EXPECT_EQ(cluster.run({"teardown", "--yes", "--discard"}).code, 0);
  EXPECT_TRUE(cluster.nothing_left());
}

}  // namespace
}  // namespace paddle::test
