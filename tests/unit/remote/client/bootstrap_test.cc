#include "remote/client/bootstrap.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/version.h"
#include "proto/agent.pb.h"
#include "proto/agent_channel.h"
#include "remote/launcher/launcher.h"
#include "tests/support/planted_agent.h"
#include "tests/unit/remote/client/agent_fixture.h"

namespace paddle::remote {
namespace {

TimePoint soon() {
  return TimePoint(std::chrono::steady_clock::now()) + std::chrono::seconds(20);
}

// Answers every command with the same text, as a node with a noisy login shell does.
class ScriptedLauncher final : public Launcher {
 public:
  explicit ScriptedLauncher(std::string answer) : answer_(std::move(answer)) {}

  Result<Channel> run(const std::string& constant_command, TimePoint deadline) override {
    commands.push_back(constant_command);
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
      return system_error(Errc::kFailed, "socketpair");
    }
    const UniqueFd theirs(pair[1]);
    Channel channel{nullptr, nullptr, UniqueFd(pair[0])};
    PADDLE_TRY_STATUS(write_all(theirs.get(), as_bytes(answer_), deadline));
    return channel;
  }

  std::vector<std::string> commands;

 private:
  std::string answer_;
};

// The local shell, with something to do before each command: as a start-up file of the user's.
class PrefixedLauncher final : public Launcher {
 public:
  PrefixedLauncher(const NodeSpec& node, std::string prefix)
      : local_(*make_local_launcher(node)), prefix_(std::move(prefix)) {}

  Result<Channel> run(const std::string& constant_command, TimePoint deadline) override {
    return local_->run(prefix_ + constant_command, deadline);
  }

 private:
  std::unique_ptr<Launcher> local_;
  std::string prefix_;
};

// Every byte set to another: what a full disk or a power cut leaves under a good name.
void spoil(const std::string& path) {
  write_file(path, std::string(std::filesystem::file_size(path), '#'));
}

TEST_F(AgentTest, NodeWithoutSha256sumIsServedAndItsAgentIsComparedByContent) {
  const std::string tools = folder_ + "/tools";
  std::filesystem::create_directory(tools);
  for (const char* tool : {"uname", "ls", "mkdir", "wc", "head", "cat", "chmod", "mv", "rm"}) {
    std::filesystem::create_symlink(std::string("/bin/") + tool, tools + "/" + tool);
  }
  PrefixedLauncher launcher(node_, "PATH=" + tools + "; export PATH; ");
  ASSERT_TRUE(bootstrap(launcher, node_, options_, soon()));
  std::vector<std::string> agents;
  for (const auto& entry : std::filesystem::directory_iterator(node_.root + "/bin")) {
    if (entry.path().extension() != ".verified") agents.push_back(entry.path().string());
  }
  ASSERT_EQ(agents.size(), 1U);
  const std::string content = file_content(agents[0]);
  spoil(agents[0]);
  const auto again = bootstrap(launcher, node_, options_, soon());
  EXPECT_TRUE(again) << again.error().message;
  EXPECT_TRUE(file_content(agents[0]) == content) << "accepted by its size";
}

TEST_F(AgentTest, ADiskThatIsFullIsNamedAndNotTheNetwork) {
  const std::string tools = folder_ + "/tools";
  std::filesystem::create_directory(tools);
  const std::string head =
      write_file(tools + "/head",
                 "#!/bin/sh\necho 'head: error writing: No space left on device' >&2\nexit 1\n");
  std::filesystem::permissions(head, std::filesystem::perms::owner_all);
  PrefixedLauncher launcher(node_, "PATH=" + tools + ":$PATH; export PATH; ");
  const auto started = bootstrap(launcher, node_, options_, soon());
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Errc::kResource) << started.error().message;
  EXPECT_NE(started.error().message.find("No space left on device"), std::string::npos)
      << started.error().message;
  EXPECT_NE(started.error().hint.find("workdir"), std::string::npos) << started.error().hint;
}

// Two `up` at a time: the folder is empty when this one looks for marks, and has the mark of the
// other one when this one lists it.
TEST_F(AgentTest, AFolderThatAnotherUpPreparesMeanwhileIsOurs) {
  for (const char* const made : {".paddlectl-node", ".paddlectl-id", "store/objects/x"}) {
    node_.root = folder_ + "/lab";
    std::filesystem::create_directories(node_.root + "/bin");
    const std::string tools = folder_ + "/tools";
    std::filesystem::create_directories(tools);
    const std::string ls = write_file(
        tools + "/ls", fmt::format("#!/bin/sh\nmkdir -p $(dirname {0}/{1}); : > {0}/{1}\n"
                                   "exec /bin/ls \"$@\"\n",
                                   node_.root, made));
    std::filesystem::permissions(ls, std::filesystem::perms::owner_all);
    PrefixedLauncher launcher(node_, "PATH=" + tools + ":$PATH; export PATH; ");
    const auto started = bootstrap(launcher, node_, options_, soon());
    EXPECT_TRUE(started) << made << ": " << started.error().message;
    EXPECT_TRUE(std::filesystem::exists(node_.root + "/" + made)) << "the test did nothing";
    std::filesystem::remove_all(node_.root);
  }
}

// A tool of the node is where the teardown of another paddlectl comes in between.
TEST_F(AgentTest, ARootThatATeardownRemovesMeanwhileIsNotMadeAgain) {
  for (const char* tool : {"uname", "ls", "mkdir", "head", "mv"}) {
    connect_agent();
    // The shortest way finds no agent, and all of the longer one is gone through.
    for (const auto& entry : std::filesystem::directory_iterator(node_.root + "/bin")) {
      std::filesystem::remove(entry.path());
    }
    if (std::string_view(tool) == "mkdir") std::filesystem::remove(node_.root + "/bin");
    const std::string tools = folder_ + "/tools-" + tool;
    std::filesystem::create_directory(tools);
    const std::string teardown =
        write_file(tools + "/" + tool,
                   fmt::format("#!/bin/sh\nrm -rf {}\nexec /bin/{} \"$@\"\n", node_.root, tool));
    std::filesystem::permissions(teardown, std::filesystem::perms::owner_all);
    PrefixedLauncher launcher(node_, "PATH=" + tools + ":$PATH; export PATH; ");
    ConnectOptions find = options_;
    find.create = false;
    const auto found = bootstrap(launcher, node_, find, soon());
    EXPECT_FALSE(found && found->fd) << tool;
    EXPECT_FALSE(std::filesystem::exists(node_.root)) << tool;
  }
}

TEST_F(AgentTest, ALoginShellThatRunsNothingIsNamed) {
  const std::string silent = "the login shell ended without running a command";
  const auto started = [&](const std::string& answer) {
    ScriptedLauncher launcher(answer);
    auto channel = bootstrap(launcher, node_, options_, soon());
    EXPECT_FALSE(channel);
    return channel ? Error{} : std::move(channel).error();
  };
  EXPECT_EQ(started("").message, "closed by peer") << "a node without a host has no login";
  node_.host = "lab1";
  EXPECT_EQ(started("").message, silent);
  EXPECT_NE(started("").hint.find("run it by hand: ssh lab1 true; "), std::string::npos);
  node_.user = "ann";
  node_.ssh_port = 2222;
  node_.jump = "gate";
  EXPECT_NE(started("").hint.find("ssh -J gate -p 2222 ann@lab1 true; "), std::string::npos);
  for (const char* const said :
       {"no shell here\n", "hello\r\nno shell here", "no shell here\r\n"}) {
    const Error error = started(said);
    EXPECT_EQ(error.code, Errc::kUnreachable);
    EXPECT_EQ(error.message, silent + "; its last output was 'no shell here'") << said;
  }
}

TEST_F(AgentTest, ASpoiledAgentIsReplaced) {
  connect_agent();
  connect_agent();
  for (const bool seems_old : {false, true}) {  // a clock that was set back
    for (const auto& entry : std::filesystem::directory_iterator(node_.root + "/bin")) {
      if (entry.path().extension() == ".verified") continue;
      const std::string good = file_content(entry.path());
      spoil(entry.path());
      if (seems_old) std::filesystem::last_write_time(entry.path(), {});
      EXPECT_TRUE(connect(node_, options_));
      EXPECT_EQ(file_content(entry.path()), good);
    }
  }
}

// The tools before those of the node in its PATH.
std::string with_tool(const std::string& folder, const std::string& name, const std::string& text) {
  std::filesystem::create_directories(folder);
  const std::string tool = folder + "/" + name;
  std::ofstream(tool) << text;
  std::filesystem::permissions(tool, std::filesystem::perms::owner_all);
  return fmt::format("PATH={}:$PATH; export PATH; ", folder);
}

TEST_F(AgentTest, AnAgentThatIsSpoiledOnItsWayIsNamed) {
  for (const char* const spoils : {"tr A B", "tr '\\000-\\377' '\\000'"}) {
    PrefixedLauncher launcher(
        node_, with_tool(folder_ + "/tools", "head",
                         fmt::format("#!/bin/sh\n/usr/bin/head \"$@\" | {}\n", spoils)));
    const auto started = bootstrap(launcher, node_, options_, soon());
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().code, Errc::kResource) << started.error().message;
    EXPECT_TRUE(started.error().message.starts_with("the agent is incomplete at " + node_.root))
        << started.error().message;
    EXPECT_NE(started.error().hint.find("disk is full"), std::string::npos);
    EXPECT_TRUE(connect(node_, options_)) << "the next command brings it again";
    std::filesystem::remove_all(node_.root);
  }
}

// The number of a killed shell comes again, in a container soon.
TEST_F(AgentTest, TheLeftoverOfAKilledUploadIsOverwritten) {
  const std::string leaves = fmt::format(
      "#!/bin/sh\n[ ! -d {0}/bin ] || (cd /proc; for p in [0-9]*; do echo half "
      ">{0}/bin/.upload-$p; "
      "done)\nexec /bin/ls \"$@\"\n",
      node_.root);
  PrefixedLauncher launcher(node_, with_tool(folder_ + "/tools", "ls", leaves));
  const auto started = bootstrap(launcher, node_, options_, soon());
  EXPECT_TRUE(started) << started.error().message;
  EXPECT_TRUE(std::filesystem::exists(node_.root + "/bin/.upload-1")) << "the test did nothing";
}

TEST_F(AgentTest, AnAgentIsHashedOnceUntilTheNodesNextBoot) {
  connect_agent();
  std::string note;
  for (const auto& entry : std::filesystem::directory_iterator(node_.root + "/bin")) {
    if (entry.path().extension() == ".verified") note = entry.path();
  }
  ASSERT_FALSE(note.empty());
  const std::string boot = file_content(note);
  const auto noted = std::filesystem::last_write_time(note);
  connect_agent();
  EXPECT_EQ(std::filesystem::last_write_time(note), noted) << "hashed again";
  write_file(note, "another-boot");
  connect_agent();
  EXPECT_EQ(file_content(note), boot);
  std::filesystem::last_write_time(std::filesystem::path(note).replace_extension(""), noted);
  connect_agent();
  EXPECT_NE(file_content(note), boot) << "the program was changed since";
}

TEST_F(AgentTest, LookingLeavesANodeWithoutOurFolderAlone) {
  options_.create = false;
  auto found = connect(node_, options_);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(*found, nullptr);
  EXPECT_FALSE(std::filesystem::exists(node_.root));
  options_.create = true;
  connect_agent();
  options_.create = false;
  found = connect(node_, options_);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_NE(*found, nullptr);
}

TEST_F(AgentTest, ABannerWithoutALineEndHidesNothing) {
  PrefixedLauncher launcher(node_, "printf '\\033]0;a title\\007 welcome to $(id)'; ");
  const auto started = bootstrap(launcher, node_, options_, soon());
  EXPECT_TRUE(started) << started.error().message;
}

TEST_F(AgentTest, AFolderThatHoldsOtherFilesIsNotTakenOver) {
  std::filesystem::create_directories(node_.root);
  for (const std::string name : {"thesis.tex", "two words", ".hidden"}) {
    const std::string path = write_file(node_.root + "/" + name, "years of work");
    const auto refused = connect(node_, options_);
    ASSERT_FALSE(refused) << name << " would be removed by teardown";
    EXPECT_EQ(refused.error().code, Errc::kAuth);
    EXPECT_NE(refused.error().message.find(node_.root), std::string::npos)
        << refused.error().message;
    EXPECT_FALSE(std::filesystem::exists(node_.root + "/bin"));
    EXPECT_EQ(file_content(path), "years of work");
    std::filesystem::remove(path);
  }
  EXPECT_TRUE(connect(node_, options_)) << "an empty folder is fine";
  write_file(node_.root + "/notes", "mine");
  EXPECT_TRUE(connect(node_, options_)) << "it has been ours already";
  std::filesystem::remove_all(folder_ + "/nodes");
}

TEST_F(AgentTest, OtherArchitectureIsNamedBeforeAnythingIsPushed) {
  ScriptedLauncher launcher("Welcome!\r\nPADDLECTL-PROBE Linux sparc64 /root\r\n");
  const auto refused = bootstrap(launcher, node_, options_, soon());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kVersion);
  EXPECT_TRUE(refused.error().message.starts_with("the node is sparc64, but this paddlectl has "))
      << refused.error().message;
  EXPECT_EQ(launcher.commands.size(), 1U) << "is the agent there, or what is this machine?";
  for (const std::string& command : launcher.commands)
    EXPECT_EQ(command.find("mkdir"), std::string::npos) << command;
}

TEST_F(AgentTest, APreparedNodeIsServedByOneCommand) {
  connect_agent();
  ScriptedLauncher launcher("Welcome!\nPADDLECTL-AGENT " + std::string(kProgramVersion) + "\n");
  const auto started = bootstrap(launcher, node_, options_, soon());
  ASSERT_TRUE(started) << started.error().message;
  EXPECT_EQ(launcher.commands.size(), 1U);
}

TEST_F(AgentTest, NoiseBeforeTheSentinelIsSkippedUpToALimit) {
  ScriptedLauncher noisy(
      "motd\n\x1b[31mPADDLECTL-AGENT\nxPADDLECTL-AGENT 9\nPADDLECTL-AGENT 7\r\nrest");
  auto channel = noisy.run("", soon());
  const auto line = skip_to_line(channel->fd.get(), "PADDLECTL-AGENT ", soon());
  ASSERT_TRUE(line) << line.error().message;
  EXPECT_EQ(*line, "7");
  char rest[5] = {};
  EXPECT_EQ(::read(channel->fd.get(), rest, 4), 4) << "bytes after the sentinel were eaten";
  EXPECT_STREQ(rest, "rest");
  ScriptedLauncher endless(std::string(kNoiseBytesMax + 1, 'x'));
  auto flood = endless.run("", soon());
  const auto given_up = skip_to_line(flood->fd.get(), "PADDLECTL-AGENT ", soon());
  ASSERT_FALSE(given_up);
  EXPECT_EQ(given_up.error().code, Errc::kData);
}

TEST_F(AgentTest, AProgramThatSomebodyElseMayHavePlantedIsNotRun) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  for (const std::string& way : test::PlantedAgent::ways()) {
    node_.root = folder_ + "/" + std::to_string(way.size()) + "/shared/lab";
    const test::PlantedAgent planted(node_.root, options_.agent_binary);
    planted.plant(way);
    for (const bool create : {false, true}) {
      options_.create = create;
      const auto client = connect(node_, options_);
      EXPECT_FALSE(planted.has_run()) << way;
      ASSERT_FALSE(client) << way;
      EXPECT_EQ(client.error().code, Errc::kAuth) << client.error().message;
    }
  }
}

// A link on the way to the folder, in a place that others may write: it changes after it was looked
// at, which here the node's own `ls` does.
TEST_F(AgentTest, ALinkThatChangesAfterTheCheckLeadsNowhereElse) {
  const std::string tools = folder_ + "/tools", link = folder_ + "/shared",
                    here = folder_ + "/here";
  std::filesystem::create_directory(tools);
  std::filesystem::create_directory(here);
  std::filesystem::create_directory_symlink(here, link);
  node_.root = link + "/lab";
  ASSERT_TRUE(connect(node_, options_));
  const test::PlantedAgent planted(folder_ + "/evil/lab", options_.agent_binary);
  const std::string ls = write_file(
      tools + "/ls", fmt::format("#!/bin/sh\n/bin/ls \"$@\"\nln -sfn {0}/evil {1}.new; mv -T "
                                 "{1}.new {1}\n",
                                 folder_, link));
  std::filesystem::permissions(ls, std::filesystem::perms::owner_all);
  PrefixedLauncher launcher(node_, "PATH=" + tools + ":$PATH; export PATH; ");
  const auto started = bootstrap(launcher, node_, options_, soon());
  EXPECT_TRUE(started) << started.error().message;
  EXPECT_FALSE(planted.has_run());
  EXPECT_EQ(std::filesystem::read_symlink(link), folder_ + "/evil") << "the test did nothing";
}

// All of the folder is removed in the end, so none that somebody keeps files in is taken.
TEST_F(AgentTest, AFolderWithFilesOfOthersIsRefusedWhateverTheirNames) {
  for (const char* const file : {"bin/tool", "jobs/cv/letter.txt", "store/x", "copy/x", "x"}) {
    node_.root = folder_ + "/lab";
    std::filesystem::create_directories(
        std::filesystem::path(node_.root + "/" + file).parent_path());
    write_file(node_.root + "/" + file, "mine");
    const auto refused = connect(node_, options_);
    ASSERT_FALSE(refused) << file;
    EXPECT_NE(refused.error().message.find("contains files that paddlectl did not create"),
              std::string::npos)
        << refused.error().message;
    std::filesystem::remove_all(node_.root);
  }
  std::filesystem::create_directories(node_.root + "/bin");
  write_file(node_.root + "/bin/.upload-17", "half an agent");
  EXPECT_TRUE(connect(node_, options_));
}

// Cleaners of old files, and people, remove a program and leave the rest.
// While it exists, what this thread mounts is seen by it and by the programs that it starts alone.
class OwnMounts {
 public:
  OwnMounts() : before_(::open("/proc/thread-self/ns/mnt", O_RDONLY | O_CLOEXEC)) {
    is_own_ = before_ && ::unshare(CLONE_NEWNS) == 0 &&
              ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  }
  ~OwnMounts() { ::setns(before_.get(), CLONE_NEWNS); }
  OwnMounts(const OwnMounts&) = delete;
  OwnMounts& operator=(const OwnMounts&) = delete;
  bool are_own() const { return is_own_; }

 private:
  UniqueFd before_;
  bool is_own_ = false;
};

// The volumes that kubelet makes: an emptyDir, and one with an fsGroup.
TEST_F(AgentTest, AVolumeThatOthersMayWriteToIsAcceptedIfTheClusterFileAskedForIt) {
  const OwnMounts mounts;
  if (!mounts.are_own()) GTEST_SKIP() << "mounts need root, and a mount namespace of their own";
  for (const char* const options : {"mode=0777", "mode=2775,gid=1000"}) {
    const std::string volume = folder_ + "/volume";
    std::filesystem::create_directories(volume);
    ASSERT_EQ(::mount("volume", volume.c_str(), "tmpfs", 0, options), 0);
    node_.root = volume + "/w/t";
    const auto starts = [&](bool is_shared) {
      node_.workdir_shared = is_shared;
      const auto launcher = make_local_launcher(node_);
      const auto channel = bootstrap(**launcher, node_, options_, soon());
      if (channel) return std::string("yes");
      return fmt::format("{} {}", static_cast<int>(channel.error().code), channel.error().message);
    };
    const std::string refused = starts(false);
    EXPECT_NE(refused.find(volume + " can be written by another user"), std::string::npos)
        << options << ": " << refused;
    EXPECT_EQ(starts(true), "yes") << options;
    EXPECT_EQ(starts(true), "yes") << options << ": once the agent is there";
    namespace fs = std::filesystem;
    EXPECT_EQ(fs::status(node_.root).permissions() & fs::perms::all, fs::perms::owner_all);
    // Only the volume itself is accepted, and neither a folder in it nor ours.
    fs::permissions(volume + "/w", fs::perms::all);
    EXPECT_NE(starts(true).find(volume + "/w can be written by another user"), std::string::npos)
        << options;
    fs::permissions(volume + "/w", fs::perms::owner_all);
    fs::permissions(node_.root, fs::perms::all);
    EXPECT_NE(starts(true), "yes") << options;
    ASSERT_EQ(::umount2(volume.c_str(), MNT_DETACH), 0);
  }
  const std::string plain = folder_ + "/plain";
  std::filesystem::create_directories(plain);
  std::filesystem::permissions(plain, std::filesystem::perms::all);
  node_.root = plain + "/w";
  node_.workdir_shared = true;
  const auto launcher = make_local_launcher(node_);
  const auto channel = bootstrap(**launcher, node_, options_, soon());
  ASSERT_FALSE(channel) << "nothing is mounted there";
  EXPECT_EQ(channel.error().code, Errc::kAuth) << channel.error().message;
  std::filesystem::remove_all(plain);
}

TEST_F(AgentTest, AFolderOfOursIsOursWhateverOfItIsMissing) {
  const auto remove_agents = [&] {
    for (const auto& entry : std::filesystem::directory_iterator(node_.root + "/bin")) {
      if (entry.path().filename().string().starts_with("paddlectl-agent-"))
        std::filesystem::remove(entry.path());
    }
  };
  const std::vector<std::pair<std::string, std::function<void()>>> losses{
      {"the agent", remove_agents},
      {"bin", [&] { std::filesystem::remove_all(node_.root + "/bin"); }},
      {"all but what was pushed",
       [&] {
         std::filesystem::remove_all(node_.root + "/bin");
         std::filesystem::remove(node_.root + "/.paddlectl-node");
       }},
      {"all but a job's records",
       [&] {
         for (const char* const gone : {"bin", "store", ".paddlectl-node"})
           std::filesystem::remove_all(node_.root + "/" + gone);
         std::filesystem::create_directories(node_.root + "/jobs/j/proc/trainer-0");
       }},
      {"all but the engine", [&] {
         write_file(node_.root + "/bin/paddle-0123456789abcdef", "engine");
         remove_agents();
         for (const char* const gone : {"jobs", "store", ".paddlectl-node"})
           std::filesystem::remove_all(node_.root + "/" + gone);
       }}};
  for (const bool create : {true, false}) {
    for (const auto& [what, lose] : losses) {
      options_.create = true;
      auto agent = connect_agent();
      push_script(*agent, "tool", "true");
      agent.reset();
      write_file(node_.root + "/notes", "mine");
      lose();
      options_.create = create;
      const auto again = connect(node_, options_);
      ASSERT_TRUE(again) << what << ": " << again.error().message;
      ASSERT_TRUE(*again) << what;
      ASSERT_TRUE((*again)->teardown(false)) << what;
      EXPECT_FALSE(std::filesystem::exists(node_.root)) << what;
    }
  }
  options_.create = true;
}

// The folders of nodes that share a machine, or a home on a file server.
TEST_F(AgentTest, OtherNodesOfTheClusterOnThisMachineAreNamed) {
  const std::string cluster = node_.root;
  node_.root = cluster + "/n-0";
  auto beside = folders_beside(node_, options_);
  ASSERT_TRUE(beside) << beside.error().message;
  EXPECT_TRUE(beside->empty()) << "nothing is there";
  connect_agent();
  NodeSpec other = node_;
  other.root = cluster + "/n-1";
  ASSERT_TRUE(connect(other, options_));
  std::filesystem::create_directories(cluster + "/thesis/bin");
  beside = folders_beside(node_, options_);
  ASSERT_TRUE(beside) << beside.error().message;
  EXPECT_EQ(*beside, std::vector<std::string>{"n-1"});
  node_.root = cluster + "/renamed";
  EXPECT_EQ(*folders_beside(node_, options_), (std::vector<std::string>{"n-0", "n-1"}));
  std::filesystem::create_directories(cluster + "/bin");
  write_file(cluster + "/bin/paddlectl-agent-0123456789abcdef", "of an earlier release");
  EXPECT_EQ(*folders_beside(node_, options_), (std::vector<std::string>{".", "n-0", "n-1"}));
  std::filesystem::remove_all(cluster);
}

// A tool of the node takes the permission away, as a mount without exec does.
TEST_F(AgentTest, WhereNoProgramCanRunNothingStays) {
  const std::string tools = folder_ + "/tools";
  std::filesystem::create_directory(tools);
  const std::string chmod =
      write_file(tools + "/chmod", "#!/bin/sh\nshift\nexec /bin/chmod 600 \"$@\"\n");
  std::filesystem::permissions(chmod, std::filesystem::perms::owner_all);
  PrefixedLauncher launcher(node_, "PATH=" + tools + ":$PATH; export PATH; ");
  node_.root = folder_ + "/nodes/a/lab";
  const auto refused = bootstrap(launcher, node_, options_, soon());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("no program can run from"), std::string::npos)
      << refused.error().message;
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/nodes"));
  std::filesystem::create_directories(node_.root + "/jobs/j/output");
  write_file(node_.root + "/jobs/j/output/model", "kept by a teardown");
  ASSERT_FALSE(bootstrap(launcher, node_, options_, soon()));
  EXPECT_FALSE(std::filesystem::exists(node_.root + "/bin"));
  EXPECT_EQ(file_content(node_.root + "/jobs/j/output/model"), "kept by a teardown");
  std::filesystem::remove_all(folder_ + "/nodes");
}

TEST_F(AgentTest, ANodeWithoutRoomForItsFolderIsShortOfRoomAndNotStrange) {
  const std::string tools = folder_ + "/tools";
  std::filesystem::create_directory(tools);
  for (const char* const why :
       {"No space left on device", "Disk quota exceeded", "Read-only file system"}) {
    const std::string mkdir =
        write_file(tools + "/mkdir",
                   fmt::format("#!/bin/sh\necho 'mkdir: cannot create: {}' >&2\nexit 1\n", why));
    std::filesystem::permissions(mkdir, std::filesystem::perms::owner_all);
    PrefixedLauncher launcher(node_, "PATH=" + tools + ":$PATH; export PATH; ");
    const auto refused = bootstrap(launcher, node_, options_, soon());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::kResource) << refused.error().message;
    EXPECT_NE(refused.error().message.find(why), std::string::npos) << refused.error().message;
    EXPECT_NE(refused.error().hint.find("workdir"), std::string::npos);
  }
}

// A tool that cannot be started looks at nothing.
TEST_F(AgentTest, ANodeThatMayStartNoProcessIsNotCalledStrangeOrUnreachable) {
  PrefixedLauncher first(node_, "");
  ASSERT_TRUE(bootstrap(first, node_, options_, soon()));
  const std::string tools = folder_ + "/tools";
  std::filesystem::create_directory(tools);
  const std::string ls =
      write_file(tools + "/ls", "#!/bin/sh\necho '/bin/sh: 1: Cannot fork' >&2\nexit 2\n");
  std::filesystem::permissions(ls, std::filesystem::perms::owner_all);
  PrefixedLauncher launcher(node_, "PATH=" + tools + ":$PATH; export PATH; ");
  const auto refused = bootstrap(launcher, node_, options_, soon());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kResource) << refused.error().message;
  EXPECT_NE(refused.error().message.find("Cannot fork"), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(refused.error().message.find("another user"), std::string::npos)
      << refused.error().message;
  EXPECT_NE(refused.error().hint.find("ulimit -u"), std::string::npos) << refused.error().hint;
  // The shell itself ends, where it is the one that may not start another.
  PrefixedLauncher ends(node_, "echo '/bin/sh: 1: Cannot fork' >&2; exit 2; ");
  const auto ended = bootstrap(ends, node_, options_, soon());
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Errc::kResource) << ended.error().message;
}

// The marks of folders that we made are no way to empty a file of ours.
TEST_F(AgentTest, AMarkThatIsALinkLeavesItsFileAsItIs) {
  const std::string tools = folder_ + "/tools", file = folder_ + "/precious";
  std::filesystem::create_directory(tools);
  write_file(file, "precious");
  node_.root = folder_ + "/a/b/lab";
  const std::string mkdir = write_file(
      tools + "/mkdir",
      fmt::format("#!/bin/sh\n/bin/mkdir \"$@\" || exit 1\nln -s {} {}/a/.paddlectl-made || :\n",
                  file, folder_));
  std::filesystem::permissions(mkdir, std::filesystem::perms::owner_all);
  PrefixedLauncher launcher(node_, "PATH=" + tools + ":$PATH; export PATH; ");
  const auto started = bootstrap(launcher, node_, options_, soon());
  EXPECT_TRUE(started) << started.error().message;
  EXPECT_EQ(file_content(file), "precious");
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ + "/a/.paddlectl-made"))
      << "the test did nothing";
  EXPECT_TRUE(std::filesystem::is_regular_file(folder_ + "/a/b/.paddlectl-made"));
}

TEST_F(AgentTest, CorruptFrameEndsTheAgentWithAReason) {
  auto launcher = make_local_launcher(node_);
  auto started = bootstrap(**launcher, node_, options_, soon());
  ASSERT_TRUE(started) << started.error().message;
  const int fd = started->fd.get();
  ASSERT_TRUE(write_all(fd, Bytes(kFrameHeaderBytes, std::byte{0x5a}), soon()));
  const auto reply = read_frame(fd, kAgentPayloadBytesMax, soon());
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->header.type, wire::agent::AGENT_ERROR);
  const auto end = read_frame(fd, kAgentPayloadBytesMax, soon());
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, Errc::kUnreachable);
  started->fd.reset();
}

TEST_F(AgentTest, TakenPortIsReportedWithItsOwner) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof name;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&name), size), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &size), 0);
  const std::uint16_t port = ntohs(name.sin_port);
  auto agent = connect_agent();
  const auto ports = agent->check_ports("127.0.0.1", port, 1);
  ASSERT_TRUE(ports) << ports.error().message;
  ASSERT_EQ(ports->size(), 1U);
  EXPECT_FALSE(ports->at(0).free);
  EXPECT_TRUE(ports->at(0).owner.starts_with("pid " + std::to_string(::getpid()) + " ("))
      << ports->at(0).owner;
  EXPECT_TRUE(agent->check_ports("127.0.0.77", port, 1)->at(0).free) << "another address";
  EXPECT_FALSE(agent->check_ports("203.0.113.9", port, 1)) << "not ours";
}

}  // namespace
}  // namespace paddle::remote
