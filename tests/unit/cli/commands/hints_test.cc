// Every command that a hint of the job commands names is one that is accepted.
#include <regex>
#include <set>

#include "base/fd.h"
#include "cli/commands/commands.h"
#include "tests/support/snapshot_manifest.h"
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

using TypedWords = std::vector<std::string>;

// The options of a command, "--job" and "--name" of "--job,--name", with whether they take a value.
std::map<std::string, bool> options_of(const Command& command) {
  std::map<std::string, bool> found;
  const auto add = [&](const OptionList& options) {
    for (const Option& option : options) {
      if (option.is_positional()) continue;
      std::istringstream names{std::string(option.name)};
      for (std::string name; std::getline(names, name, ',');) found[name] = !option.is_flag();
    }
  };
  add(command.invoke().options);
  GlobalOptions globals;
  add(global_options(globals));
  return found;
}

const Command* find_command(const std::string& word) {
  const auto found = std::ranges::find_if(all_commands(), [&](const Command& command) {
    return command.name == word || (!command.alias.empty() && command.alias == word);
  });
  return found == all_commands().end() ? nullptr : &*found;
}

// The commands in a text, each as its words after "paddlectl": options with their values, and words
// that `is_argument` takes.
std::vector<TypedWords> commands_in(const std::string& text,
                                    const std::function<bool(const std::string&)>& is_argument) {
  std::vector<TypedWords> commands;
  static const std::regex begin(R"re(\bpaddlectl ([a-z]+)\b)re");
  for (std::sregex_iterator at(text.begin(), text.end(), begin), end; at != end; ++at) {
    const Command* const command = find_command((*at)[1]);
    if (command == nullptr) continue;
    const auto options = options_of(*command);
    TypedWords words{(*at)[1]};
    std::istringstream rest(at->suffix().str());
    bool is_value = false;
    for (std::string word; rest >> word;) {
      const bool is_last = word.find_first_of(";,:)`'\"") != std::string::npos;
      word.resize(std::min(word.size(), word.find_first_of(";,:)`'\"")));
      const std::string name = word.substr(0, word.find('='));
      const auto option = options.find(name);
      const bool is_option = word.starts_with("--");
      if (word.empty() || (!is_value && !is_option && !is_argument(word))) break;
      words.push_back(word);
      is_value = is_option && option != options.end() && option->second &&
                 word.find('=') == std::string::npos;
      if (is_last) break;
    }
    commands.push_back(std::move(words));
  }
  return commands;
}

// The commands in the sources have the options that there are.
TEST(Hints, NameCommandsWithTheirOptions) {
  std::set<std::string> wrong;
  std::size_t known = 0;
  for (const char* folder :
       {"cli/job", "cli/commands", "cli/watch", "cli/cluster", "cli/report", "remote"}) {
    for (const auto& entry :
         fs::recursive_directory_iterator(PADDLE_SOURCE_DIR "/" + std::string(folder))) {
      const std::string path = entry.path().string();
      if (!path.ends_with(".cc")) continue;
      std::string text = *read_file(path);
      // Literals that follow each other are one text.
      text = std::regex_replace(text, std::regex(R"re("\s*\n\s*")re"), "");
      text = std::regex_replace(text, std::regex(R"re(//[^\n]*)re"), "");
      for (const TypedWords& words : commands_in(text, [](const std::string&) { return false; })) {
        ++known;
        const auto options = options_of(*find_command(words.front()));
        for (const std::string& text_word : words) {
          const std::string word = text_word.substr(0, text_word.find('\\'));  // "\n" in a literal
          if (word.starts_with("--") && word != "--" &&
              !options.contains(word.substr(0, word.find('='))))
            wrong.insert(path + ": paddlectl " + words.front() + " " + word);
        }
      }
    }
  }
  EXPECT_GT(known, 30U);
  EXPECT_EQ(wrong, std::set<std::string>());
}

// Types the commands that errors and notes of job commands name, each on the cluster as it was.
class TypedHints : public CommandsTest {
 protected:
  void SetUp() override {
    CommandsTest::SetUp();
    ASSERT_EQ(run({"up", "c.toml"}), 0);
    ask_ = [](std::string_view, bool) { return std::optional<std::string>("yes"); };
    // One that follows a job without an end is left with Ctrl-C.
    on_pause_ = [this] { interrupted_ = interrupted_ || ++pauses_ % 100 == 0; };
  }
  struct Node {
    std::map<std::string, std::string> files;
    std::vector<ProcessStatus> processes;
    std::map<std::string, remote::ProcessSpec> specs;
    std::map<std::uint16_t, std::string> taken_ports;
  };
  std::array<Node, 2> look() const {
    std::array<Node, 2> all;
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = {nodes_[i].files, nodes_[i].processes, nodes_[i].specs, nodes_[i].taken_ports};
    }
    return all;
  }
  void restore(const std::array<Node, 2>& all) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      nodes_[i].files = all[i].files;
      nodes_[i].processes = all[i].processes;
      nodes_[i].specs = all[i].specs;
      nodes_[i].taken_ports = all[i].taken_ports;
    }
  }
  void save_output() {
    fs::remove_all(folder_ + "/kept");
    if (fs::exists(folder_ + "/output"))
      fs::copy(folder_ + "/output", folder_ + "/kept", fs::copy_options::recursive);
  }
  void restore_output() {
    fs::remove_all(folder_ + "/output");
    if (fs::exists(folder_ + "/kept"))
      fs::copy(folder_ + "/kept", folder_ + "/output", fs::copy_options::recursive);
  }

  // Types `command`, then each command that its error or notes name: none is refused.
  void type(const TypedWords& command) {
    const auto before = look();
    save_output();
    interrupted_ = false;
    (void)run(command);
    const std::string said = err_.str();
    const auto after = look();
    std::string typed;
    for (const std::string& word : command) typed += word + " ";
    save_output();
    bool is_removed = false;
    for (TypedWords words : commands_in(said, [](const std::string& word) {
           return word == "job1" || word == "w" || word == "<workspace>" || word == "output/job1";
         })) {
      std::ranges::replace(words, "<workspace>", "w");
      for (std::string& word : words) {
        if (word == "train.passes=N") word = "train.passes=9";
      }
      std::string text;
      for (const std::string& word : words) text += " " + word;
      // "paddlectl rm JOB, then paddlectl train ...": the second one on what the first one left.
      const bool is_second = is_removed && words.front() == "train" &&
                             std::ranges::find(words, "--resume") == words.end();
      if (is_removed && !is_second) {
        restore(after);
        restore_output();
      }
      is_removed = words.front() == "rm";
      interrupted_ = false;
      const int code = run(words);
      EXPECT_NE(code, static_cast<int>(Errc::kUsage)) << "paddlectl " << typed << "\n"
                                                      << said << "\npaddlectl" << text << "\n"
                                                      << err_.str();
      ++typed_;
      if (is_removed) continue;
      restore(after);
      restore_output();
    }
    restore(before);
    fs::remove_all(folder_ + "/kept");
  }
  void type_all() {
    for (const TypedWords& command :
         {TypedWords{"train", "--name", "job1", "w"},
          TypedWords{"train", "--resume", "--name", "job1", "w"},
          TypedWords{"train", "--resume", "--name", "job1", "--set", "seed=5", "w"},
          TypedWords{"attach", "job1"}, TypedWords{"stop", "job1"},
          TypedWords{"stop", "--now", "job1"}, TypedWords{"restart", "job1"},
          TypedWords{"restart", "job1", "trainer-0"}, TypedWords{"restart", "job1", "trainer-9"},
          TypedWords{"rm", "job1", "--yes"}, TypedWords{"fetch", "job1", "--pass", "7"},
          TypedWords{"status", "job1"}, TypedWords{"jobs"},
          TypedWords{"train", "--from", "job1:7", "w"}, TypedWords{"status", "--job", "other"}}) {
      type(command);
    }
    EXPECT_GT(typed_, 0);
  }
  void has_snapshot(const std::string& name) {
    nodes_[0].files["jobs/job1/output/" + name + "/MANIFEST"] = test::snapshot_manifest(1, 9);
  }
  void has_no_snapshot() {
    for (FakeNode& node : nodes_) {
      std::erase_if(node.files,
                    [](const auto& file) { return file.first.starts_with("jobs/job1/output/"); });
    }
    for (const auto& entry : fs::directory_iterator(folder_ + "/output/job1")) {
      if (entry.path().filename().string().starts_with("pass-")) fs::remove_all(entry.path());
    }
  }
  void set_all(ProcessState state, int exit_code, int signal, bool trainers_too) {
    for (FakeNode& node : nodes_) {
      for (ProcessStatus& process : node.processes) {
        if (!trainers_too && process.name.starts_with("trainer-")) continue;
        process.state = state;
        process.exit_code = exit_code;
        process.signal = signal;
      }
    }
  }

  int typed_ = 0;
  int pauses_ = 0;
};

TEST_F(TypedHints, OfAJobThatRuns) {
  trainer_state_ = ProcessState::kRunning;
  ASSERT_EQ(run({"train", "--detach", "--name", "job1", "w"}), 0) << err_.str();
  for (const TypedWords& command :
       {TypedWords{"train", "--name", "job1", "w"},
        TypedWords{"train", "--resume", "--name", "job1", "w"}, TypedWords{"stop", "job1"},
        TypedWords{"stop", "--now", "job1"}, TypedWords{"rm", "job1", "--yes"},
        TypedWords{"restart", "job1", "trainer-9"}}) {
    type(command);
  }
  EXPECT_GT(typed_, 0);
}

TEST_F(TypedHints, OfAJobThatIsDone) {
  ASSERT_EQ(train(), 0) << err_.str();
  has_snapshot("pass-00000");
  type_all();
}

TEST_F(TypedHints, OfAJobThatWasStoppedInAPass) {
  trainer_exit_ = 75;
  ASSERT_EQ(train(), 75) << err_.str();
  trainer_exit_ = 0;
  has_snapshot("pass-00001-000040");
  type_all();
}

TEST_F(TypedHints, OfAJobThatWasStoppedAndHasSavedNothing) {
  trainer_exit_ = 75;
  ASSERT_EQ(train(), 75) << err_.str();
  trainer_exit_ = 0;
  has_no_snapshot();
  type_all();
  (void)run({"attach", "job1"});
  EXPECT_FALSE(err_has("resume with")) << "there is nothing to go on from\n" << err_.str();
  EXPECT_TRUE(err_has("paddlectl restart job1; or remove it: paddlectl rm job1")) << err_.str();
}

TEST_F(TypedHints, OfAJobThatLostAProcess) {
  ASSERT_EQ(train(), 0) << err_.str();
  has_snapshot("pass-00000");
  set_all(ProcessState::kKilled, 0, 9, true);
  type_all();
}

TEST_F(TypedHints, OfAJobThatLostAProcessAndHasSavedNothing) {
  ASSERT_EQ(train(), 0) << err_.str();
  has_no_snapshot();
  set_all(ProcessState::kKilled, 0, 9, true);
  type_all();
}

TEST_F(TypedHints, OfAJobWithAFullDisk) {
  trainer_exit_ = 7;
  ASSERT_EQ(train(), 7) << err_.str();
  trainer_exit_ = 0;
  has_no_snapshot();
  type_all();
}

TEST_F(TypedHints, OfAStartThatWasBrokenOff) {
  ASSERT_EQ(train(), 0) << err_.str();
  has_no_snapshot();
  for (FakeNode& node : nodes_) {
    std::erase_if(node.processes, [](const ProcessStatus& process) {
      return process.name.starts_with("trainer-");
    });
  }
  type_all();
}

TEST_F(TypedHints, OfAProgramOfTheUsersOwnThatFailed) {
  write("w/job.toml", "[trainer]\ncommand = [\"./train\"]\n");
  struct Checkpoint {
    std::size_t node;
    std::string file;  // "": it has saved nothing
  };
  for (const Checkpoint& saved : {Checkpoint{0, "ckpt/MANIFEST"}, Checkpoint{0, "checkpoint.pt"},
                                  Checkpoint{1, "ckpt/MANIFEST"}, Checkpoint{0, ""}}) {
    SCOPED_TRACE(saved.file + " on node " + std::to_string(saved.node));
    for (FakeNode& node : nodes_) {
      node.on_start = [&](FakeNode& fake, ProcessStatus& status) {
        started(fake, status);
        fake.files.erase("jobs/job1/output/pass-00000/MANIFEST");
        if (&fake == &nodes_[saved.node] && !saved.file.empty())
          fake.files["jobs/job1/output/" + saved.file] = "theirs";
      };
    }
    trainer_exit_ = 1;
    interrupted_ = false;
    EXPECT_EQ(train(), 1) << err_.str();
    trainer_exit_ = 0;
    EXPECT_TRUE(err_has("paddlectl restart job1")) << err_.str();
    EXPECT_EQ(err_has("paddlectl train --resume --name job1 w"), !saved.file.empty()) << err_.str();
    EXPECT_EQ(err_has("; or restart it with the files on its nodes: paddlectl restart job1"),
              !saved.file.empty())
        << err_.str();
    EXPECT_EQ(err_has("it has saved no snapshot; start it again from its beginning: paddlectl "
                      "restart job1; or remove it: paddlectl rm job1"),
              saved.file.empty())
        << err_.str();
    type_all();
    ASSERT_EQ(run({"rm", "job1", "--yes", "--discard"}), 0) << err_.str();
    fs::remove_all(folder_ + "/output");
  }
}

TEST_F(TypedHints, OfAJobThatIsNowhere) {
  type_all();
}

}  // namespace
}  // namespace paddle::cli
