// Lines of known_hosts, beside what OpenSSH's own ssh-keygen finds in the same files.
#include "remote/launcher/known_hosts.h"

#include <unistd.h>

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/sshd.h"
#include "tests/support/temporary_folder.h"

namespace paddle::remote {
namespace {

class KnownHostsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::access("/usr/bin/ssh-keygen", X_OK) != 0) GTEST_SKIP() << "no ssh-keygen";
    key_ = make("one");
    other_ = make("two");
  }

  // "ssh-ed25519 AAAA...", without a comment.
  std::string make(const std::string& name) const {
    EXPECT_TRUE(test::make_key(folder_ / name));
    std::istringstream words(test::TemporaryFolder::read(folder_ / name + ".pub"));
    std::string type, key;
    words >> type >> key;
    return type + " " + key;
  }
  static std::string base64_of(const std::string& key) { return key.substr(key.find(' ') + 1); }

  HostKeyVerdict verdict(const std::string& text,
                         const KnownName& name = {"[node1]:2222", "node1"}) const {
    KnownHosts known(name);
    known.add(text, "known_hosts");
    return known.check(base64_of(key_));
  }
  HostKeyState state(const std::string& text) const { return verdict(text).state; }

  // The numbers of the lines that ssh-keygen finds for the host.
  std::vector<int> lines_of_keygen(const std::string& file, const std::string& host) const {
    const std::string found = folder_ / "found";
    const auto code = test::run_program({"/usr/bin/ssh-keygen", "-F", host, "-f", file}, found);
    EXPECT_TRUE(code);
    std::istringstream lines(test::TemporaryFolder::read(found));
    std::vector<int> numbers;
    for (std::string line; std::getline(lines, line);) {
      const std::string mark = "found: line ";
      const auto at = line.find(mark);
      if (line.starts_with("# Host ") && at != line.npos)
        numbers.push_back(std::stoi(line.substr(at + mark.size())));
    }
    return numbers;
  }

  test::TemporaryFolder folder_;
  std::string key_, other_;
};

TEST_F(KnownHostsTest, NamesTheHostsThatSshKeygenFinds) {
  const std::vector<std::string> fields{"node1",
                                        "node2",
                                        "node*",
                                        "n?de1",
                                        "*",
                                        "node1,node2",
                                        "!node1,*",
                                        "*,!node1",
                                        "[node1]:2222",
                                        "[node*]:2222",
                                        "[*]:2222",
                                        "[node1]:*",
                                        "NODE1",
                                        "node1.lab",
                                        "*.lab",
                                        "*.LAB,!x*",
                                        "?????",
                                        "n*1",
                                        "n*o*d*e*1",
                                        "**",
                                        "node1,",
                                        ",node1",
                                        "!node2",
                                        "10.0.0.?",
                                        "10.0.0.1",
                                        "2001:db8::1",
                                        "2001:*",
                                        "[2001:db8::1]:22",
                                        "[2001:db8::1]:2222",
                                        "node[1-3]",
                                        "n\\*",
                                        "[node1]",
                                        "!*.lab,node1.lab",
                                        "a,b,c,d,node1",
                                        "node10"};
  std::string text = "# a comment\n\n";
  for (const std::string& field : fields) text += field + " " + key_ + "\n";
  const std::string file = folder_.write("known_hosts", text);
  for (const char* host :
       {"node1", "node2", "node10", "node1.lab", "x.lab", "[node1]:2222", "[node2]:2222",
        "10.0.0.1", "2001:db8::1", "[2001:db8::1]:2222", "a", "node[1-3]", "n*"}) {
    std::vector<int> ours;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (names_host(fields[i], host)) ours.push_back(static_cast<int>(i) + 3);
    }
    EXPECT_EQ(ours, lines_of_keygen(file, host)) << host;
  }
}

TEST_F(KnownHostsTest, FindsHashedNames) {
  const std::string file =
      folder_.write("known_hosts", "node1 " + other_ + "\n[node1]:2222 " + key_ + "\n");
  ASSERT_EQ(*test::run_program({"/usr/bin/ssh-keygen", "-H", "-f", file}), 0);
  const std::string hashed = test::TemporaryFolder::read(file);
  ASSERT_EQ(hashed.find("node1"), std::string::npos);
  EXPECT_EQ(verdict(hashed).state, HostKeyState::kKnown);
  EXPECT_EQ(verdict(hashed).place, "known_hosts:2");
  EXPECT_EQ(verdict(hashed, {"node1", ""}).state, HostKeyState::kChanged);
  EXPECT_EQ(verdict(hashed, {"[node3]:2222", "node3"}).state, HostKeyState::kUnknown);
  for (const char* bad : {"|1|", "|1||", "|1|AAAA", "|1|AAAA|", "|1|===|AAAA", "|2|AAAA|AAAA",
                          "|1|A|A", "|", "||||"}) {
    EXPECT_EQ(state(std::string(bad) + " " + key_ + "\n"), HostKeyState::kUnknown) << bad;
  }
}

TEST_F(KnownHostsTest, TakesTheLinesThatSshTakes) {
  const std::string good = "[node1]:2222 " + key_;
  std::string tabs = good;
  std::ranges::replace(tabs, ' ', '\t');
  for (const std::string& text : {good,
                                  good + "\n",
                                  good + "\r\n",
                                  "# lab\r\n\r\n" + good + "\r\n",
                                  tabs,
                                  tabs + "\t\n",
                                  "  \t" + good + " a comment with words\n",
                                  "\xef\xbb\xbf" + good + "\n",
                                  "[NODE1]:2222 " + key_ + "\n",
                                  "x,[node1]:2222,y " + key_ + "\n",
                                  good + "\n[node1]:2222 ssh-rsa cut\n",
                                  "[node1]:2222 ssh-ed25519\n" + good + "\n",
                                  "[node1]:2222\n" + good + "\n",
                                  "[node1]:2222 ssh-mldsa-65 AAAADHNzaC1tbGRzYS02NQ==\n" + good,
                                  "[node1]:2222 " + key_.substr(0, key_.size() - 8) + "\n" + good,
                                  "[node1]:2222 " + other_ + "\n" + good,
                                  "@cert-authority *.lab " + other_ + "\n" + good,
                                  "@cert-authority * " + key_ + "\n" + good,
                                  "@no-such-mark * " + other_ + "\n" + good,
                                  std::string("[node1]:2222 1024 35 12345\n") + good,
                                  "node1 " + key_ + "\n",
                                  "node* " + key_ + "\n"}) {
    EXPECT_EQ(state(text), HostKeyState::kKnown) << text;
  }
}

TEST_F(KnownHostsTest, RefusesWhatSshRefuses) {
  EXPECT_EQ(state(""), HostKeyState::kUnknown);
  EXPECT_EQ(state("# [node1]:2222 " + key_), HostKeyState::kUnknown);
  EXPECT_EQ(state("![node1]:2222,!node1,* " + key_), HostKeyState::kUnknown);
  EXPECT_EQ(state("*,![node1]:*,!node1 " + key_ + "\n"), HostKeyState::kUnknown);
  EXPECT_EQ(state("@cert-authority * " + key_), HostKeyState::kUnknown);
  EXPECT_EQ(state("[node1]:2223 " + key_), HostKeyState::kUnknown);
  EXPECT_EQ(state("[node1]:2222 ssh-rsa " + base64_of(key_)), HostKeyState::kUnknown);
  EXPECT_EQ(state("[node1]:2222 " + other_), HostKeyState::kChanged);
  EXPECT_EQ(state("* " + other_), HostKeyState::kChanged);
  // A line without the port never makes a key look changed.
  EXPECT_EQ(state("node1 " + other_), HostKeyState::kUnknown);
  EXPECT_EQ(state("[node1]:2222 " + other_ + "\nnode1 " + key_), HostKeyState::kChanged);
}

TEST_F(KnownHostsTest, ARevokedKeyIsRefusedHoweverItsLineIsWritten) {
  const std::string good = "[node1]:2222 " + key_ + "\n";
  for (const std::string& revoked :
       {"@revoked * " + key_, "  @revoked * " + key_, "\t@revoked\t*\t" + key_,
        "@revoked   [node1]:2222   " + key_ + " gone\r", "@revoked elsewhere " + key_,
        "\xef\xbb\xbf@revoked * " + key_}) {
    EXPECT_EQ(state(revoked + "\n" + good), HostKeyState::kRevoked) << revoked;
  }
  EXPECT_EQ(state(good + " @revoked * " + key_), HostKeyState::kRevoked);
  EXPECT_EQ(state("@revoked * " + other_ + "\n" + good), HostKeyState::kKnown);
}

TEST_F(KnownHostsTest, SeveralFilesCountTogetherAndAnAuthorityIsNamed) {
  KnownHosts known({"[node1]:2222", "node1"});
  known.read(folder_.write("first", "[node1]:2222 " + other_ + "\n"));
  known.read(folder_ / "absent");
  known.read(folder_.write("second", "# x\n[node1]:2222 " + key_ + "\n"));
  EXPECT_EQ(known.check(base64_of(key_)).state, HostKeyState::kKnown);
  EXPECT_EQ(known.check(base64_of(key_)).place, (folder_ / "second") + ":2");
  EXPECT_EQ(known.types(), std::vector<std::string>{"ssh-ed25519"});
  EXPECT_TRUE(known.unread().empty());
  const HostKeyVerdict unknown = verdict("\n@cert-authority node* " + other_ + "\n");
  EXPECT_EQ(unknown.state, HostKeyState::kUnknown);
  EXPECT_EQ(unknown.authority, "known_hosts:2");
}

TEST_F(KnownHostsTest, ManyStarsTakeNoLongTime) {
  std::string pattern;
  for (int i = 0; i < 300; ++i) pattern += "*a";
  EXPECT_FALSE(names_host(pattern + "b", std::string(250, 'a')));
  EXPECT_FALSE(names_host(std::string(2000, '*'), "node1")) << "longer than ssh reads";
}

}  // namespace
}  // namespace paddle::remote
