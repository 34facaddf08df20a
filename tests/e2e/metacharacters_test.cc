// Texts from outside with all that a shell would act on, at each place where one reaches a node, a
// program or a script: whatever becomes of the command, nothing in a text is ever executed.
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "tests/support/free_ports.h"
#include "tests/support/process.h"
#include "tests/support/sshd.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAddress = "127.0.0.9";
constexpr std::chrono::seconds kDeadline{90};

// `canary` is a program in PATH, here and on the nodes. The first text runs it without quotes,
// within single ones and within double ones.
const std::vector<std::string> kTexts = {
    "a$(canary)`canary`;canary|canary&canary <(canary)${x:-$(canary)}';canary;'\";canary;\"#",
    "a\ncanary\n",
    "-oProxyCommand=canary",
};

std::string toml(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out + "\"";
}

// A user's folder, and a cluster of a node behind sshd and one on this machine.
class Surroundings {
 public:
  Surroundings() : port_(free_ports(8)) {
    const std::string bin = folder_ / "bin";
    folder_.write("bin/canary", fmt::format("#!/bin/sh\necho \"$0 $*\" >> '{}'\n", sign()));
    // As those that a rendered script starts.
    for (const char* stub : {"srun", "mpirun"}) {
      folder_.write(std::string("bin/") + stub,
                    "#!/bin/sh\nfor word; do [ -f \"$word\" ] && exec "
                    "sh \"$word\"; done; exit 0\n");
    }
    for (const auto& entry : fs::directory_iterator(bin))
      fs::permissions(entry.path(), fs::perms::owner_all);
    path_ = "PATH=" + bin + ":/usr/bin:/bin";
    auto sshd = Sshd::start(kAddress, SshdLogin::kKey, {"SetEnv=SHLVL=2 " + path_});
    EXPECT_TRUE(sshd) << sshd.error().message;
    if (sshd) sshd_ = *std::move(sshd);
    write_job(folder_ / "job");
    folder_.write("cluster.toml", cluster({}, {}));
  }
  ~Surroundings() { run({"teardown", "--cluster", "cluster.toml", "--yes", "--discard"}); }

  // The file that the canary leaves.
  std::string sign() const { return folder_ / "sign"; }
  const TemporaryFolder& folder() const { return folder_; }

  std::string run(const std::vector<std::string>& arguments) {
    std::vector<std::string> command = {PADDLECTL_PROGRAM};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return start(command);
  }
  // Its output, once it has ended by itself.
  std::string start(std::vector<std::string> command) {
    command.insert(command.begin(), {"/usr/bin/env", "--chdir=" + folder_.path()});
    Process process(std::move(command), folder_ / fmt::format("printed-{}", commands_++),
                    {path_, "HOME=" + folder_.path(), "SLURM_JOB_ID=1", "SLURM_JOB_NUM_NODES=1"});
    const auto code = process.wait(kDeadline);
    EXPECT_TRUE(code && *code < 128) << code.value_or(-1) << "\n" << process.output();
    return process.output();
  }
  // Keys of the file and of the node behind sshd, in place of those that work; values are TOML.
  std::string cluster(const std::map<std::string, std::string>& head,
                      std::map<std::string, std::string> node) const {
    std::map<std::string, std::string> all = {{"name", "\"lab\""},
                                              {"port", fmt::format("{}", port_)},
                                              {"workdir", toml(folder_ / "nodes")}};
    for (const auto& [key, value] : head) all[key] = value;
    std::string text;
    for (const auto& [key, value] : all) text += key + " = " + value + "\n";
    const auto port = static_cast<std::uint16_t>(sshd_ ? sshd_->port() : 0);
    node.insert({{"name", "\"far\""},
                 {"workdir", toml(folder_ / "far")},
                 {"host", fmt::format("\"{}\"", kAddress)},
                 {"address", fmt::format("\"{}\"", kAddress)},
                 {"ssh_port", fmt::format("{}", port)},
                 {"identity", toml(sshd_ ? sshd_->identity() : "")},
                 {"known_hosts", toml(sshd_ ? sshd_->known_hosts() : "")}});
    if (node.contains("launcher"))
      std::erase_if(node, [](const auto& entry) {
        return std::string_view("host ssh_port identity known_hosts").find(entry.first) !=
               std::string_view::npos;
      });
    text += "[[node]]\n";
    for (const auto& [key, value] : node) text += key + " = " + value + "\n";
    return text + "[[node]]\nname = \"near\"\nlauncher = \"local\"\n";
  }
  void write_job(const std::string& workspace, const std::string& name = "tiny",
                 const std::string& more = "") const {
    std::error_code error;
    fs::create_directories(workspace + "/data", error);
    const std::string layer =
        "[[layer]]\nname = \"score\"\ntype = \"embedding\"\ninput = [\"words\"]\npooling = "
        "\"sum\"\nsize = 2\n[[layer]]\nname = \"cost\"\ntype = \"softmax_cross_entropy\"\ninput = "
        "[\"score\"]\nlabel = \"label\"\n";
    const auto write = [&](const std::string& file, const std::string& text) {
      (void)replace_file(workspace + "/" + file, as_bytes(text));
    };
    write("job.toml", "name = " + toml(name) +
                          "\nseed = 1\n[data]\ntrain = \"data/train.txt-*\"\nformat = \"bow\"\n"
                          "dictionary = \"data/dictionary.txt\"\n" +
                          layer +
                          "[optimizer]\nmethod = \"sgd\"\nlearning_rate = 0.1\n[train]\n"
                          "passes = 1\nbatch_size = 2\n" +
                          more);
    for (int i = 0; i < 2; ++i)
      write(fmt::format("data/train.txt-0000{}", i), "1\tgood\n0\tbad\n1\tgood\n0\tbad\n");
    write("data/dictionary.txt", "good\nbad\n<unk>\n");
  }
  // Trains on both nodes and looks at what there is to see.
  void train(const std::vector<std::string>& more, const std::string& workspace = "job") {
    std::vector<std::string> all = {"train",      "--cluster", "cluster.toml", "--trainers", "2",
                                    "--pservers", "1",         workspace};
    all.insert(all.end(), more.begin(), more.end());
    run(all);
    for (const char* look : {"status", "logs", "report"}) run({look, "--cluster", "cluster.toml"});
  }

 private:
  TemporaryFolder folder_;
  std::uint16_t port_;
  std::string path_;
  std::unique_ptr<Sshd> sshd_;
  int commands_ = 0;
};

// A place for a text, and what uses it.
struct Place {
  std::string name;
  std::function<void(Surroundings&, const std::string& text)> use;
};
void PrintTo(const Place& place, std::ostream* out) {
  *out << place.name;
}

Place in_cluster(const std::string& name, const std::string& key, bool is_of_node,
                 const std::string& format = "{}") {
  return {
      name, [=](Surroundings& here, const std::string& text) {
        const std::map<std::string, std::string> entry = {
            {key, fmt::format(fmt::runtime(format), toml(text))}};
        here.folder().write("hostile.toml",
                            is_of_node ? here.cluster({}, entry) : here.cluster(entry, {}));
        for (const char* command : {"up", "check", "teardown"}) {
          std::vector<std::string> all = {command};
          if (all[0] == "up") {
            all.emplace_back("hostile.toml");
          } else {
            all.insert(all.end(), std::initializer_list<std::string>{"--cluster", "hostile.toml"});
          }
          if (all[0] == "teardown")
            all.insert(all.end(), std::initializer_list<std::string>{"--yes", "--discard"});
          here.run(all);
        }
        const std::string program = PADDLECTL_PROGRAM;
        here.start({"/bin/bash", "-c",
                    "source <(\"$0\" completion bash); COMP_WORDS=(\"$0\" check --cluster "
                    "hostile.toml --on ''); COMP_CWORD=5; _paddlectl",
                    program});
      }};
}

Place in_arguments(const std::string& name, std::vector<std::string> arguments) {
  return {name, [=](Surroundings& here, const std::string& text) {
            std::vector<std::string> all;
            for (std::string argument : arguments) {
              for (const auto& [word, value] :
                   {std::pair<std::string, std::string>("HERE", here.folder().path()),
                    std::pair<std::string, std::string>("TEXT", text)}) {
                const std::size_t at = argument.find(word);
                if (at != std::string::npos) argument.replace(at, word.size(), value);
              }
              all.push_back(argument);
            }
            here.run(all);
          }};
}

Place in_override(const std::string& name, const std::string& format) {
  return {name, [=](Surroundings& here, const std::string& text) {
            here.train({"--set", fmt::format(fmt::runtime(format), toml(text))});
          }};
}

Place in_script(const std::string& platform, const std::string& shell) {
  return {"script_of_" + platform, [=](Surroundings& here, const std::string& text) {
            std::string folder = text;
            std::erase(folder, '/');
            here.write_job(here.folder() / folder);
            std::string script = here.run({"render", platform, "--set", "data.train=" + text,
                                           "--image", text, "--name", "job-" + text, "--", folder});
            here.folder().write("script", script);
            if (!shell.empty()) here.start({shell, "script"});
            script = here.run({"render", platform, "--set", "data.train=" + text, "--", folder});
            here.folder().write("script", script);
            if (!shell.empty()) here.start({shell, "script"});
          }};
}

std::vector<Place> places() {
  std::vector<Place> all;
  for (const char* key : {"name", "workdir"})
    all.push_back(in_cluster(std::string("cluster_") + key, key, false));
  all.push_back(in_cluster("cluster_env", "env", false, "[{}]"));
  all.push_back({"cluster_env_value", [](Surroundings& here, const std::string& text) {
                   here.folder().write(
                       "cluster.toml",
                       here.cluster({{"env", "[" + toml("SET=" + text) + "]"}}, {}));
                   here.train({});
                   here.folder().write("cluster.toml", here.cluster({}, {}));
                 }});
  for (const char* key :
       {"name", "host", "address", "user", "identity", "known_hosts", "jump", "workdir"})
    all.push_back(in_cluster(std::string("node_") + key, key, true));
  for (const char* key : {"groups", "roles", "gpus", "env"})
    all.push_back(in_cluster(std::string("node_") + key, key, true, "[{}]"));
  all.push_back(in_cluster("launcher", "launcher", true));
  all.push_back(in_cluster("launcher_program", "launcher", true, "[{}]"));
  all.push_back(in_cluster("launcher_argument", "launcher", true, "[\"echo\", {}]"));

  const std::vector<std::string> on = {"--cluster", "cluster.toml"};
  const auto arguments = [&](const std::string& name, std::vector<std::string> words) {
    words.insert(words.begin() + 1, on.begin(), on.end());
    all.push_back(in_arguments(name, words));
  };
  arguments("on", {"check", "--on=TEXT"});
  arguments("job_name", {"train", "--trainers", "1", "--pservers", "1", "--name=TEXT", "job"});
  arguments("job_to_look_at", {"status", "--job=TEXT"});
  arguments("job_to_remove", {"rm", "--yes", "--discard", "--", "TEXT"});
  arguments("from", {"train", "--trainers", "1", "--pservers", "1", "--from=TEXT", "job"});
  arguments("exec_argument", {"exec", "--", "echo", "TEXT"});
  arguments("exec_program", {"exec", "--", "TEXT"});
  arguments("get", {"get", "--", "/tmp/TEXT", "got"});
  arguments("get_into", {"get", "--", "/etc/hostname", "TEXT"});
  arguments("put_to", {"put", "--", "cluster.toml", "HERE/TEXT"});
  arguments("grep", {"logs", "--grep=TEXT"});
  arguments("since", {"logs", "--since=TEXT"});
  arguments("role", {"logs", "--role=TEXT"});
  arguments("fingerprint", {"trust", "--fingerprint=TEXT"});
  arguments("output", {"fetch", "--output=TEXT"});
  all.push_back(in_arguments("up_file", {"up", "--", "TEXT"}));
  all.push_back(in_arguments("init_hosts", {"init", "--hosts=TEXT"}));
  all.push_back(in_arguments("init_folder", {"init", "--template", "word2vec", "--", "TEXT"}));
  all.push_back({"init_hostfile", [](Surroundings& here, const std::string& text) {
                   here.folder().write("hosts", text + " slots=2\n");
                   here.run({"init", "from-hosts.toml", "--hostfile", "hosts"});
                   here.run({"up", "from-hosts.toml"});
                   fs::remove(here.folder() / "from-hosts.toml");
                 }});

  all.push_back(in_override("data_files", "data.train={}"));
  all.push_back(in_override("dictionary", "data.dictionary={}"));
  all.push_back(in_override("trainer_program", "trainer.command=[{}]"));
  all.push_back(in_override("trainer_argument", "trainer.command=[\"echo\", {}]"));
  all.push_back(in_override("setup_argument", "trainer.setup=[\"echo\", {}]"));
  all.push_back(in_override("pipe_argument", "data.pipe_command=[\"cat\", {}]"));
  all.push_back({"name_in_job", [](Surroundings& here, const std::string& text) {
                   here.write_job(here.folder() / "named", text);
                   here.train({}, "named");
                 }});
  all.push_back(
      {"workspace_and_files", [](Surroundings& here, const std::string& text) {
         here.write_job(here.folder() / text);
         std::error_code error;
         fs::create_directories(here.folder() / (text + "/" + text), error);
         here.folder().write(text + "/" + text + "/" + text, "content");
         here.folder().write(text + "/data/train.txt-" + text, "1\tgood\n");
         here.train({"--name", "files"}, "./" + text);
         here.run({"put", "--cluster", "cluster.toml", "--", "./" + text, here.folder() / "put"});
         here.run({"get", "--cluster", "cluster.toml", "--", here.folder() / "put", "got"});
       }});
  all.push_back(in_script("slurm", "/bin/bash"));
  all.push_back(in_script("openmpi", "/bin/sh"));
  all.push_back(in_script("kubernetes", ""));
  return all;
}

class Metacharacters : public testing::TestWithParam<Place> {
 protected:
  static void SetUpTestSuite() {
    if (Sshd::missing().empty()) here_ = std::make_unique<Surroundings>();
  }
  static void TearDownTestSuite() { here_.reset(); }
  void SetUp() override {
    if (!here_) GTEST_SKIP() << Sshd::missing();
    fs::remove(here_->sign());
  }

  inline static std::unique_ptr<Surroundings> here_;
};

TEST_P(Metacharacters, AreNeverExecuted) {
  for (const std::string& text : kTexts) {
    GetParam().use(*here_, text);
    ASSERT_FALSE(fs::exists(here_->sign())) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(At, Metacharacters, testing::ValuesIn(places()),
                         [](const auto& place) { return place.param.name; });

class Canary : public Metacharacters {};

// Without this the others would prove nothing.
TEST_P(Canary, SignsWhereAShellIsAskedFor) {
  const std::string up = here_->run({"up", "cluster.toml"});
  const std::string ran =
      here_->run({"exec", "--cluster", "cluster.toml", "--shell", "x=$(canary)"});
  ASSERT_TRUE(fs::exists(here_->sign())) << up << ran;
  EXPECT_EQ(std::ranges::count(TemporaryFolder::read(here_->sign()), '\n'), 2)
      << TemporaryFolder::read(here_->sign()) << up << ran;
}

INSTANTIATE_TEST_SUITE_P(Every, Canary, testing::Values(Place{"node", nullptr}),
                         [](const auto& place) { return place.param.name; });

}  // namespace
}  // namespace paddle::test
