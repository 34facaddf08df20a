// Host keys and user names of the SSH launcher, against a real sshd on a loopback address.
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>

#include "base/bytes.h"
#include "remote/launcher/host_key_learning.h"
#include "remote/launcher/ssh_config.h"
#include "tests/e2e/ssh_fixture.h"
#include "tests/support/process.h"

namespace paddle::remote {
namespace {

using SshTrustTest = SshLauncherTest;

std::string fingerprint_of(const std::string& public_key, const std::string& scratch) {
  // ssh-keygen is the independent witness for what the launcher prints.
  EXPECT_EQ(*test::run_program({"/usr/bin/ssh-keygen", "-l", "-f", public_key}, scratch), 0);
  const std::string line = *read_file(scratch);
  const auto begin = line.find("SHA256:");
  return line.substr(begin, line.find(' ', begin) - begin);
}

TEST_F(SshTrustTest, RefusesAnUnknownHostKeyAndShowsItsFingerprint) {
  write(sshd_->known_hosts(), "");
  const Error error = refusal();
  EXPECT_EQ(error.code, Errc::kAuth);
  EXPECT_NE(error.message.find(
                fingerprint_of(sshd_->folder() + "/host_key.pub", sshd_->folder() + "/print")),
            std::string::npos)
      << error.message;
  EXPECT_NE(error.message.find("node-0"), std::string::npos);
  EXPECT_NE(error.hint.find("paddlectl trust"), std::string::npos) << error.hint;
  const std::string log = sshd_->log_with("Connection closed by");
  EXPECT_NE(log.find("Connection closed by"), std::string::npos) << log;
  EXPECT_EQ(log.find("Accepted"), std::string::npos) << "no key was offered";
  EXPECT_EQ(*read_file(sshd_->known_hosts()), "") << "trust is never added silently";
}

TEST_F(SshTrustTest, RefusesAMissingKnownHostsFile) {
  node_.known_hosts = sshd_->folder() + "/absent";
  EXPECT_EQ(refusal().code, Errc::kAuth);
  EXPECT_FALSE(std::filesystem::exists(node_.known_hosts));
}

TEST_F(SshTrustTest, RefusesAChangedHostKey) {
  const std::string other = sshd_->folder() + "/other_key";
  ASSERT_TRUE(test::make_key(other));
  write(sshd_->known_hosts(),
        fmt::format("[{}]:{} {}", sshd_->address(), sshd_->port(), *read_file(other + ".pub")));
  const Error error = refusal();
  EXPECT_EQ(error.code, Errc::kAuth);
  EXPECT_NE(error.message.find(
                fingerprint_of(sshd_->folder() + "/host_key.pub", sshd_->folder() + "/print")),
            std::string::npos)
      << error.message;
  EXPECT_NE(error.message.find(sshd_->known_hosts()), std::string::npos);
  EXPECT_EQ(error.hint.find("trust"), std::string::npos) << "not a thing to wave through";
}

// The same file, read by OpenSSH's own ssh and by us.
TEST_F(SshTrustTest, LogsInWhereverSshDoes) {
  if (::access("/usr/bin/ssh", X_OK) != 0) GTEST_SKIP() << "no ssh";
  const std::string line = *read_file(sshd_->known_hosts());
  const std::string good = line.substr(0, line.find(' ', line.find(' ', line.find(' ') + 1) + 1));
  const std::string key = good.substr(good.find(' ') + 1);
  ASSERT_TRUE(test::make_key(sshd_->folder() + "/other_key"));
  const std::string other = *read_file(sshd_->folder() + "/other_key.pub");
  std::string tabs = good;
  std::ranges::replace(tabs, ' ', '\t');
  const std::string name = fmt::format("[{}]:{}", sshd_->address(), sshd_->port());
  int taken = 0;
  for (const std::string& text :
       {good + "\n", good + "\r\n", tabs + "\n",
        name + " ssh-mldsa-65 AAAADHNzaC1t\n" + good + "\n", good + "\n" + name + " ssh-rsa cut\n",
        "# lab\n\n  " + good + " a comment\n", sshd_->address() + " " + key + "\n",
        "127.0.0.? " + key + "\n", "!" + name + ",* " + key + "\n",
        "@cert-authority * " + key + "\n", "  @revoked * " + key + "\n" + good + "\n",
        name + " " + other + good + "\n", name + " " + other, sshd_->address() + " " + other,
        "@cert-authority * " + other + good + "\n", std::string("\n")}) {
    write(sshd_->known_hosts(), text);
    const auto theirs = test::run_program(
        {"/usr/bin/ssh", "-F", "none", "-i", sshd_->identity(), "-p", std::to_string(sshd_->port()),
         "-o", "UserKnownHostsFile=" + sshd_->known_hosts(), "-o", "GlobalKnownHostsFile=none",
         "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", sshd_->address(), "true"});
    const auto ours = make_ssh_launcher(node_, within(seconds(20)));
    EXPECT_EQ(bool(ours), *theirs == 0) << text << (ours ? "" : ours.error().message);
    taken += *theirs == 0 ? 1 : 0;
  }
  EXPECT_GE(taken, 8);
}

TEST_F(SshTrustTest, AnAuthorityForCertificatesIsNamedWithTheWayOut) {
  write(sshd_->known_hosts(),
        "\n@cert-authority 127.0.0.* " + *read_file(sshd_->folder() + "/host_key.pub"));
  const Error error = refusal();
  EXPECT_EQ(error.code, Errc::kAuth);
  EXPECT_NE(error.message.find("@cert-authority of " + sshd_->known_hosts() + ":2"),
            std::string::npos)
      << error.message;
  EXPECT_NE(error.hint.find("launcher = [\"ssh\""), std::string::npos) << error.hint;
}

TEST_F(SshTrustTest, RefusesAWrongKeyAndNamesWhatWasTried) {
  const std::string wrong = sshd_->folder() + "/wrong_key";
  const std::string fallback = node_.ssh_directory + "/id_ecdsa";
  ASSERT_TRUE(test::make_key(wrong));
  ASSERT_TRUE(test::make_key(fallback));
  node_.identity = wrong;
  const Error error = refusal();
  EXPECT_EQ(error.code, Errc::kAuth);
  EXPECT_NE(error.message.find(wrong), std::string::npos) << error.message;
  EXPECT_NE(error.message.find(fallback), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("the server accepts publickey"), std::string::npos) << error.message;
}

TEST_F(SshTrustTest, FallsBackToTheDefaultKeyOfTheSshFolder) {
  node_.identity.clear();
  std::filesystem::copy_file(sshd_->identity(), node_.ssh_directory + "/id_ed25519");
  auto launcher = make_ssh_launcher(node_, within(seconds(20)));
  EXPECT_TRUE(launcher) << launcher.error().message;
}

TEST_F(SshTrustTest, HonoursAnAliasInTheConfigFile) {
  write(node_.ssh_directory + "/config",
        fmt::format("Host trainbox\n  HostName {}\n  Port {}\n  IdentityFile {}\n"
                    "  UserKnownHostsFile {}\n",
                    sshd_->address(), sshd_->port(), sshd_->identity(), sshd_->known_hosts()));
  NodeSpec node;
  node.name = "alias";
  node.host = "trainbox";
  node.ssh_directory = node_.ssh_directory;
  auto launcher = make_ssh_launcher(node, within(seconds(20)));
  ASSERT_TRUE(launcher) << launcher.error().message;
  auto channel = (*launcher)->run("printf here", within(seconds(20)));
  ASSERT_TRUE(channel);
  EXPECT_EQ(read_all(channel->fd.get()), "here");
}

TEST_F(SshTrustTest, HonoursTheUserInTheConfigFile) {
  write(node_.ssh_directory + "/config", "Host *\n  User nobody-of-that-name\n");
  const Error error = refusal();
  EXPECT_EQ(error.code, Errc::kAuth);
  EXPECT_NE(error.message.find("nobody-of-that-name"), std::string::npos) << error.message;
}

TEST_F(SshTrustTest, GoesThroughAJumpHostAndChecksBothKeys) {
  auto bastion = Sshd::start("127.0.0.3");
  ASSERT_TRUE(bastion) << bastion.error().message;
  node_.jump = fmt::format("{}:{}", (*bastion)->address(), (*bastion)->port());
  EXPECT_EQ(refusal().code, Errc::kAuth) << "the bastion's key is not known yet";

  write(node_.known_hosts, *read_file(node_.known_hosts) + *read_file((*bastion)->known_hosts()));
  write((*bastion)->folder() + "/authorized_keys", *read_file(sshd_->identity() + ".pub"));
  auto launcher = make_ssh_launcher(node_, within(seconds(20)));
  ASSERT_TRUE(launcher) << launcher.error().message;
  auto channel = (*launcher)->run("printf \"$SSH_CONNECTION\"", within(seconds(20)));
  ASSERT_TRUE(channel);
  EXPECT_NE(read_all(channel->fd.get()).find(fmt::format(" 127.0.0.2 {}", sshd_->port())),
            std::string::npos);
  EXPECT_NE((*bastion)->log_with("Accepted publickey").find("Accepted publickey"),
            std::string::npos);
}

// A node reached with nothing but what a config file says.
NodeSpec alias_of(const NodeSpec& node) {
  NodeSpec alias;
  alias.name = "alias";
  alias.host = "trainbox";
  alias.ssh_directory = node.ssh_directory;
  alias.allow_proxy_command = true;
  return alias;
}

TEST_F(SshTrustTest, TriesEveryIdentityFileOfTheConfig) {
  const std::string wrong = sshd_->folder() + "/wrong_key";
  ASSERT_TRUE(test::make_key(wrong));
  for (const auto& [first, second] :
       {std::pair(wrong, sshd_->identity()), std::pair(sshd_->identity(), wrong)}) {
    write(node_.ssh_directory + "/config",
          fmt::format("Host trainbox\n  HostName {}\n  Port {}\n  IdentityFile {}\n"
                      "  IdentityFile {}\n  UserKnownHostsFile {}\n",
                      sshd_->address(), sshd_->port(), first, second, sshd_->known_hosts()));
    const auto launcher = make_ssh_launcher(alias_of(node_), within(seconds(20)));
    EXPECT_TRUE(launcher) << launcher.error().message;
  }
}

TEST_F(SshTrustTest, AnEncryptedKeyIsNamedWithTheWayOut) {
  const std::string key = sshd_->folder() + "/encrypted_key";
  ASSERT_TRUE(test::make_key(key, "open sesame"));
  write(sshd_->folder() + "/authorized_keys", *read_file(key + ".pub"));
  node_.identity = key;
  const Error error = refusal();
  EXPECT_EQ(error.code, Errc::kAuth);
  EXPECT_NE(error.message.find(key + " (encrypted: add it to ssh-agent)"), std::string::npos)
      << error.message;
  node_.identity.clear();
  std::filesystem::copy_file(key, node_.ssh_directory + "/id_ed25519");
  const Error unnamed = refusal();
  EXPECT_NE(unnamed.message.find("encrypted: add it to ssh-agent"), std::string::npos)
      << unnamed.message;
}

TEST_F(SshTrustTest, AcceptsAKeyThatOnlySshAgentHolds) {
  const std::string socket = sshd_->folder() + "/agent";
  const test::Process agent({"/usr/bin/ssh-agent", "-D", "-a", socket}, sshd_->folder() + "/said");
  ASSERT_TRUE(agent.prints("SSH_AUTH_SOCK")) << agent.output();
  ::setenv("SSH_AUTH_SOCK", socket.c_str(), 1);
  EXPECT_EQ(*test::run_program({"/usr/bin/ssh-add", "-q", sshd_->identity()}), 0);
  node_.identity.clear();
  const auto launcher = make_ssh_launcher(node_, within(seconds(20)));
  EXPECT_TRUE(launcher) << launcher.error().message;
  ::unsetenv("SSH_AUTH_SOCK");
}

TEST_F(SshTrustTest, ASilentSshAgentIsNamedAndPassedOver) {
  const std::string socket = sshd_->folder() + "/agent";
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  socket.copy(where.sun_path, sizeof where.sun_path - 1);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&where), sizeof where), 0);
  ASSERT_EQ(::listen(listener.get(), 4), 0);
  ::setenv("SSH_AUTH_SOCK", socket.c_str(), 1);
  node_.identity.clear();
  const Error error = refusal();
  EXPECT_EQ(error.code, Errc::kAuth);
  EXPECT_NE(error.message.find("ssh-agent (no answer at " + socket + ")"), std::string::npos)
      << error.message;
  std::filesystem::copy_file(sshd_->identity(), node_.ssh_directory + "/id_ed25519");
  EXPECT_TRUE(make_ssh_launcher(node_, within(seconds(20)))) << "the other keys still count";
  ::unsetenv("SSH_AUTH_SOCK");
}

TEST_F(SshTrustTest, KnowsAHostByItsHashedName) {
  ASSERT_EQ(*test::run_program({"/usr/bin/ssh-keygen", "-H", "-f", sshd_->known_hosts()}), 0);
  ASSERT_EQ(read_file(sshd_->known_hosts())->find(sshd_->address()), std::string::npos);
  const auto launcher = make_ssh_launcher(node_, within(seconds(20)));
  EXPECT_TRUE(launcher) << launcher.error().message;
}

TEST_F(SshTrustTest, RefusesARevokedHostKeyThatIsAlsoKnown) {
  write(sshd_->known_hosts(), *read_file(sshd_->known_hosts()) + "@revoked * " +
                                  *read_file(sshd_->folder() + "/host_key.pub"));
  const Error error = refusal();
  EXPECT_EQ(error.code, Errc::kAuth);
  EXPECT_NE(error.message.find("revoked"), std::string::npos) << error.message;
}

TEST_F(SshTrustTest, NoConfigFileSwitchesTheHostKeyCheckOff) {
  write(node_.ssh_directory + "/config", "Host *\n  StrictHostKeyChecking no\n");
  write(sshd_->known_hosts(), "");
  EXPECT_EQ(refusal().code, Errc::kAuth);
  EXPECT_EQ(*read_file(sshd_->known_hosts()), "");
}

TEST_F(SshTrustTest, ReachesAnIpv6Address) {
  auto sshd = Sshd::start("::1");
  if (!sshd) GTEST_SKIP() << "no IPv6 here: " << sshd.error().message;
  node_.host = "::1";
  node_.ssh_port = (*sshd)->port();
  node_.identity = (*sshd)->identity();
  node_.known_hosts = (*sshd)->known_hosts();
  const auto launcher = make_ssh_launcher(node_, within(seconds(20)));
  EXPECT_TRUE(launcher) << launcher.error().message;
  write(node_.known_hosts, "");
  const Error error = refusal();
  EXPECT_NE(error.message.find(fmt::format("[::1]:{} is not in", node_.ssh_port)),
            std::string::npos)
      << error.message;
}

TEST_F(SshTrustTest, NamesTheProxyOfTheConfigWhenItFails) {
  const std::string runs = sshd_->folder() + "/runs";
  const std::pair<const char*, const char*> cases[] = {
      {"exit 3", "the command exited with status 3)"},
      {"echo first >&2; echo boom >&2; exit 3", "the command exited with status 3: boom)"},
      {"cat /nonexistent/file", "the command exited with status 1: cat: /nonexistent/file"},
      {"echo boom >&2; kill -9 $$", "the command was killed by signal 9: boom)"},
      {"exec /nonexistent/proxy %h", "the command exited with status 127: "},
  };
  for (const auto& [command, words] : cases) {
    write(runs, "");
    write(node_.ssh_directory + "/config",
          fmt::format("Host *\n  ProxyCommand sh -c 'echo run >>{}; {}'\n", runs, command));
    const Error error = refusal();
    EXPECT_EQ(error.code, Errc::kUnreachable) << command;
    EXPECT_NE(error.message.find("ProxyCommand of " + node_.ssh_directory + "/config"),
              std::string::npos)
        << error.message;
    EXPECT_NE(error.message.find(words), std::string::npos) << error.message;
    EXPECT_NE(error.hint.find("run the command by hand"), std::string::npos) << error.hint;
    EXPECT_EQ(*read_file(runs), "run\n") << "a command that failed is not tried again";
  }
  // One that connected, and whose server ended the connection.
  write(runs, "");
  write(node_.ssh_directory + "/config",
        fmt::format("Host *\n  ProxyCommand sh -c 'echo run >>{}'\n", runs));
  const auto dropped = make_ssh_launcher(node_, within(seconds(3)));
  ASSERT_FALSE(dropped);
  EXPECT_TRUE(read_file(runs)->starts_with("run\nrun\n")) << dropped.error().message;
}

TEST_F(SshTrustTest, AServerWithoutACommonAlgorithmIsNamedWithTheWayOut) {
  const std::pair<const char*, const char*> cases[] = {
      {"KexAlgorithms", "diffie-hellman-group14-sha1"},
      {"KexAlgorithms", "sntrup761x25519-sha512@openssh.com"},
      {"Ciphers", "aes128-cbc"},
  };
  for (const auto& [option, value] : cases) {
    restart({fmt::format("{}={}", option, value)});
    if (HasFatalFailure()) return;
    const Error error = refusal();
    EXPECT_EQ(error.code, Errc::kUnreachable);
    EXPECT_NE(error.message.find("no algorithm in common"), std::string::npos) << error.message;
    EXPECT_NE(error.message.find(fmt::format("; the server offers {}", value)), std::string::npos)
        << error.message;
    EXPECT_NE(error.hint.find("launcher = [\"ssh\", \"-o\", \"BatchMode=yes\", \"127.0.0.2\"]"),
              std::string::npos)
        << error.hint;
  }
}

TEST_F(SshTrustTest, GoesThroughAProxyCommandOfTheConfig) {
  // A server of its own behind the command: nothing listens where the node is said to be.
  write(node_.ssh_directory + "/config",
        fmt::format("Host *\n  ProxyCommand /usr/sbin/sshd -i -f /dev/null -o UsePAM=no "
                    "-o StrictModes=no -o HostKey={0}/host_key "
                    "-o AuthorizedKeysFile={0}/authorized_keys\n",
                    sshd_->folder()));
  node_.ssh_port = 1;
  write(sshd_->known_hosts(),
        fmt::format("[{}]:1 {}", sshd_->address(), *read_file(sshd_->folder() + "/host_key.pub")));
  const auto launcher = make_ssh_launcher(node_, within(seconds(20)));
  EXPECT_TRUE(launcher) << launcher.error().message;
}

TEST_F(SshTrustTest, RefusesHostileNamesBeforeConnecting) {
  for (const char* host : {"-oProxyCommand=touch /tmp/x", "a;b", "$(id)", "a b", "a\nb", "`id`",
                           "user@host", "a/b", "", ".hidden", "a|b", "a'b", "a\"b", "a\\b"}) {
    node_.host = host;
    EXPECT_EQ(refusal().code, Errc::kUsage) << host;
  }
  node_.host = sshd_->address();
  for (const char* user : {"-l", "root;id", "$USER", "a b", "a\\", "\\a", "a:b"}) {
    node_.user = user;
    EXPECT_EQ(refusal().code, Errc::kUsage) << user;
  }
  node_.user.clear();
  for (const char* jump : {"-J", "a;b", "host:0", "host:99999", "host:22x", "$(id):22"}) {
    node_.jump = jump;
    EXPECT_EQ(refusal().code, Errc::kUsage) << jump;
  }
}

TEST_F(SshTrustTest, ShowsAKeyWithoutLoggingInAndAddsItOnceAsked) {
  for (const bool hashed : {false, true}) {
    write(sshd_->known_hosts(), "other.host ssh-ed25519 AAAA");  // with no end of line
    if (hashed) {
      write(sshd_->known_hosts(),
            "|1|c2FsdHNhbHRzYWx0c2FsdHNhbHQ=|aGFzaGhhc2hoYXNoaGFzaGhhc2g= k A\n");
    }
    const auto before = *read_file(sshd_->known_hosts());
    const auto shown = ask_host_key(node_, within(seconds(20)));
    ASSERT_TRUE(shown) << shown.error().message;
    EXPECT_FALSE(shown->known);
    EXPECT_EQ(shown->fingerprint, "ssh-ed25519 " + fingerprint_of(sshd_->folder() + "/host_key.pub",
                                                                  sshd_->folder() + "/print"));
    EXPECT_EQ(*read_file(sshd_->known_hosts()), before) << "asking adds nothing";
    ASSERT_TRUE(add_host_key(*shown));
    const std::string after = *read_file(sshd_->known_hosts());
    EXPECT_TRUE(after.starts_with(before)) << after;
    EXPECT_EQ(after.find(sshd_->address()) == after.npos, hashed) << after;
    // ssh-keygen is the independent reader of the file.
    EXPECT_EQ(*test::run_program({"/usr/bin/ssh-keygen", "-F",
                                  fmt::format("[{}]:{}", sshd_->address(), sshd_->port()), "-f",
                                  sshd_->known_hosts()}),
              0);
    EXPECT_TRUE(ask_host_key(node_, within(seconds(20)))->known);
    const auto launcher = make_ssh_launcher(node_, within(seconds(20)));
    EXPECT_TRUE(launcher) << launcher.error().message;
  }
}

TEST_F(SshTrustTest, NeverOffersToTrustAChangedKey) {
  const std::string other = sshd_->folder() + "/other_key";
  ASSERT_TRUE(test::make_key(other));
  write(sshd_->known_hosts(),
        fmt::format("[{}]:{} {}", sshd_->address(), sshd_->port(), *read_file(other + ".pub")));
  const auto shown = ask_host_key(node_, within(seconds(20)));
  ASSERT_FALSE(shown);
  EXPECT_EQ(shown.error().code, Errc::kAuth);
}

// A cluster file from somebody else may name any file, and his alias for a host be a word that the
// file's reader takes for an option: "no-pty ssh-ed25519 KEY" lets KEY log in.
TEST_F(SshTrustTest, AddsNoKeyToAFileOfAnotherKind) {
  const std::string keys = sshd_->folder() + "/authorized_keys";
  const std::string before = *read_file(keys);
  const std::string link = sshd_->folder() + "/my_known_hosts";
  std::filesystem::create_symlink(keys, link);
  for (const std::string& file : {keys, link, sshd_->folder() + "/new_keys"}) {
    node_.known_hosts = file;
    const auto shown = ask_host_key(node_, within(seconds(20)));
    ASSERT_FALSE(shown) << file;
    EXPECT_EQ(shown.error().code, Errc::kUsage);
    EXPECT_NE(shown.error().message.find("keys only to files with"), std::string::npos)
        << shown.error().message;
    ShownHostKey key;
    key.known_hosts = file;
    key.line = "no-pty ssh-ed25519 AAAA";
    EXPECT_FALSE(add_host_key(key)) << file;
  }
  EXPECT_EQ(*read_file(keys), before);
  EXPECT_FALSE(std::filesystem::exists(sshd_->folder() + "/new_keys"));
}

TEST_F(SshTrustTest, MakesTheFolderOfAMissingKnownHostsFile) {
  node_.known_hosts = sshd_->folder() + "/new/known_hosts";
  const auto shown = ask_host_key(node_, within(seconds(20)));
  ASSERT_TRUE(shown) << shown.error().message;
  ASSERT_TRUE(add_host_key(*shown));
  EXPECT_TRUE(make_ssh_launcher(node_, within(seconds(20))));
  EXPECT_EQ(std::filesystem::status(sshd_->folder() + "/new").permissions(),
            std::filesystem::perms::owner_all);
}

TEST_F(SshTrustTest, GoesThroughTwoBastionsAndChecksEveryKey) {
  auto outer = Sshd::start("127.0.0.3");
  auto inner = Sshd::start("127.0.0.4");
  ASSERT_TRUE(outer && inner);
  node_.jump = fmt::format("{}:{},{}:{}", (*outer)->address(), (*outer)->port(),
                           (*inner)->address(), (*inner)->port());
  std::string known = *read_file(node_.known_hosts);
  for (Sshd* const bastion : {outer->get(), inner->get()}) {
    write(bastion->folder() + "/authorized_keys", *read_file(sshd_->identity() + ".pub"));
    const Error error = refusal();
    EXPECT_EQ(error.code, Errc::kAuth) << "this bastion's key is not known yet";
    EXPECT_NE(error.message.find(bastion->address()), std::string::npos) << error.message;
    write(node_.known_hosts, known += *read_file(bastion->known_hosts()));
  }
  const auto path = path_to(node_);
  ASSERT_TRUE(path);
  ASSERT_EQ(path->size(), 3U);
  EXPECT_EQ((*path)[0].host, (*outer)->address());
  EXPECT_EQ((*path)[1].host, (*inner)->address());
  auto launcher = make_ssh_launcher(node_, within(seconds(20)));
  ASSERT_TRUE(launcher) << launcher.error().message;
  for (Sshd* const bastion : {outer->get(), inner->get()}) {
    EXPECT_NE(bastion->log_with("Accepted publickey").find("Accepted publickey"),
              std::string::npos);
  }
}

TEST_F(SshTrustTest, GoesThroughTheProxyJumpOfTheConfigAndChecksEveryKey) {
  auto outer = Sshd::start("127.0.0.3");
  auto inner = Sshd::start("127.0.0.4");
  ASSERT_TRUE(outer && inner);
  const auto entry = [](const char* alias, const Sshd& sshd, const std::string& more) {
    return fmt::format(
        "Host {}\n  HostName {}\n  Port {}\n  IdentityFile {}\n"
        "  UserKnownHostsFile {}\n  {}\n",
        alias, sshd.address(), sshd.port(), sshd.identity(), sshd.known_hosts(), more);
  };
  write(node_.ssh_directory + "/gates", entry("gate", **outer, "") + entry("gate-2", **inner, ""));
  for (const char* everywhere : {"", "Host *\n  ProxyJump gate\n"}) {
    const char* const own = *everywhere == '\0' ? "ProxyJump gate,gate-2" : "";
    write(node_.ssh_directory + "/config", fmt::format("Include {}/gates\n", node_.ssh_directory) +
                                               entry("trainbox", *sshd_, own) + everywhere);
    const NodeSpec node = alias_of(node_);
    const auto path = path_to(node);
    ASSERT_TRUE(path) << path.error().message;
    EXPECT_EQ(path->size(), *own == '\0' ? 2U : 3U);
    EXPECT_EQ(path->front().host, "gate");
    auto launcher = make_ssh_launcher(node, within(seconds(20)));
    ASSERT_TRUE(launcher) << launcher.error().message;
    auto channel = (*launcher)->run("printf \"$SSH_CONNECTION\"", within(seconds(20)));
    ASSERT_TRUE(channel);
    const std::string from = read_all(channel->fd.get());
    EXPECT_NE(from.find(fmt::format(" 127.0.0.2 {}", sshd_->port())), std::string::npos) << from;
    EXPECT_NE((*outer)->log_with("Accepted publickey").find("Accepted publickey"),
              std::string::npos);
    if (*own == '\0') continue;
    EXPECT_NE((*inner)->log_with("Accepted publickey").find("Accepted publickey"),
              std::string::npos);
    for (Sshd* const bastion : {outer->get(), inner->get()}) {
      const std::string known = *read_file(bastion->known_hosts());
      write(bastion->known_hosts(), "");
      auto refused = make_ssh_launcher(node, within(seconds(20)));
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code, Errc::kAuth);
      EXPECT_NE(refused.error().message.find(bastion->known_hosts()), std::string::npos)
          << refused.error().message;
      write(bastion->known_hosts(), known);
    }
  }
}

TEST_F(SshTrustTest, AWayInACircleEnds) {
  write(node_.ssh_directory + "/config",
        "Host trainbox\n  ProxyJump gate\nHost gate\n  ProxyJump trainbox\n");
  const NodeSpec node = alias_of(node_);
  const auto launcher = make_ssh_launcher(node, within(seconds(20)));
  ASSERT_FALSE(launcher);
  EXPECT_EQ(launcher.error().code, Errc::kUsage) << launcher.error().message;
  EXPECT_NE(launcher.error().message.find("over 8 jump hosts"), std::string::npos);
  EXPECT_FALSE(path_to(node));
}

TEST(JumpHost, ReadsUserHostAndPort) {
  const auto jump = parse_jump("train@bastion.lab:2222");
  ASSERT_TRUE(jump);
  EXPECT_EQ(jump->user, "train");
  EXPECT_EQ(jump->host, "bastion.lab");
  EXPECT_EQ(jump->port, 2222);
  EXPECT_EQ(parse_jump("[::1]:23")->host, "::1");
  EXPECT_EQ(parse_jump("[::1]:23")->port, 23);
  EXPECT_EQ(parse_jump("fe80::1")->host, "fe80::1");
  EXPECT_EQ(parse_jump("host")->port, 0);
}

}  // namespace
}  // namespace paddle::remote
