// ~/.ssh/config as OpenSSH reads it, against a real sshd on a loopback address.
#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>

#include "remote/launcher/host_key_learning.h"
#include "remote/launcher/ssh_tokens.h"
#include "tests/e2e/ssh_fixture.h"
#include "tests/support/process.h"

namespace paddle::remote {
namespace {

class SshConfigTest : public SshLauncherTest {
 protected:
  void SetUp() override {
    SshLauncherTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    alias_.name = "alias";
    alias_.host = "trainbox";
    alias_.ssh_directory = node_.ssh_directory;
    alias_.allow_proxy_command = true;
  }

  std::string config_file() const { return node_.ssh_directory + "/config"; }
  // The lines that lead to our sshd, apart from HostName.
  std::string way() const {
    return fmt::format("  Port {}\n  IdentityFile {}\n  UserKnownHostsFile {}\n", sshd_->port(),
                       sshd_->identity(), sshd_->known_hosts());
  }
  std::string host_name() const { return fmt::format("  HostName {}\n", sshd_->address()); }
  void configure(const std::string& text) { write(config_file(), text); }

  void expect_login(const char* why = "") {
    const auto launcher = make_ssh_launcher(alias_, within(seconds(20)));
    EXPECT_TRUE(launcher) << why << ": " << launcher.error().message;
  }
  Error expect_refusal(Errc code, const std::string& message) {
    const auto launcher = make_ssh_launcher(alias_, within(seconds(20)));
    EXPECT_FALSE(launcher) << message;
    if (launcher) return {};
    EXPECT_EQ(launcher.error().code, code) << launcher.error().message;
    EXPECT_NE(launcher.error().message.find(message), std::string::npos)
        << launcher.error().message << "\nlacks " << message;
    return launcher.error();
  }

  NodeSpec alias_;  // a node of which only its name in the config is known
};

TEST_F(SshConfigTest, BlocksAfterHostNameStillMatchTheNameThatWasTyped) {
  configure("Host trainbox\n" + host_name() + "Host train*\n" + way());
  expect_login("a pattern");
  configure("Host trainbox\n" + host_name() + "Host other trainbox\n" + way());
  expect_login("a list");
  configure("Host trainbox\n" + host_name() + "Match originalhost trainbox\n" + way());
  expect_login("Match originalhost");
  configure(
      fmt::format("Host trainbox\n{}Match host {}\n{}", host_name(), sshd_->address(), way()));
  expect_login("Match host");
}

TEST_F(SshConfigTest, ABastionOfALaterBlockIsUsed) {
  auto bastion = Sshd::start("127.0.0.3");
  ASSERT_TRUE(bastion) << bastion.error().message;
  configure(
      fmt::format("Host gate\n  HostName {}\n  Port {}\n  IdentityFile {}\n"
                  "  UserKnownHostsFile {}\nHost trainbox\n{}{}Host train*\n  ProxyJump gate\n",
                  (*bastion)->address(), (*bastion)->port(), (*bastion)->identity(),
                  (*bastion)->known_hosts(), host_name(), way()));
  expect_login();
  EXPECT_NE((*bastion)->log_with("Accepted publickey").find("Accepted publickey"),
            std::string::npos);
}

TEST_F(SshConfigTest, EveryKindOfMatchIsReadAsSshReadsIt) {
  for (const std::string criteria :
       {"all", "exec \"test %n = trainbox\"", "originalhost train*,!other user *", "final",
        "canonical all\nMatch final all", "!host other localuser *"}) {
    configure("Host trainbox\n" + host_name() + "Match " + criteria + "\n" + way());
    expect_login(criteria.c_str());
  }
}

class SshConfigAgentTest : public SshConfigTest {
 protected:
  void SetUp() override {
    SshConfigTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    socket_ = sshd_->folder() + "/agent";
    agent_.emplace(std::vector<std::string>{"/usr/bin/ssh-agent", "-D", "-a", socket_},
                   sshd_->folder() + "/said");
    ASSERT_TRUE(agent_->prints("SSH_AUTH_SOCK")) << agent_->output();
    add_to_agent(sshd_->identity());
    other_ = sshd_->folder() + "/other_key";
    ASSERT_TRUE(test::make_key(other_));
  }
  void add_to_agent(const std::string& key) {
    ASSERT_EQ(*test::run_program(
                  {"/usr/bin/env", "SSH_AUTH_SOCK=" + socket_, "/usr/bin/ssh-add", "-q", key}),
              0);
  }
  // With the agent, but no private key that is accepted.
  std::string way_with(const std::string& options) const {
    return fmt::format("Host trainbox\n{}  Port {}\n  UserKnownHostsFile {}\n{}", host_name(),
                       sshd_->port(), sshd_->known_hosts(), options);
  }

  std::string socket_, other_;
  std::optional<test::Process> agent_;
};

TEST_F(SshConfigAgentTest, IdentityAgentIsTheAgentThatIsAsked) {
  configure(way_with(""));
  expect_refusal(Errc::kAuth, "there is no key to try");
  configure(way_with("  IdentityAgent " + socket_ + "\n"));
  expect_login("a socket");
  ::setenv("SSH_AUTH_SOCK", socket_.c_str(), 1);
  configure(way_with("  IdentityAgent none\n"));
  expect_refusal(Errc::kAuth, "there is no key to try");
  configure(way_with("  IdentityAgent SSH_AUTH_SOCK\n"));
  expect_login("SSH_AUTH_SOCK");
  ::unsetenv("SSH_AUTH_SOCK");
}

TEST_F(SshConfigAgentTest, IdentitiesOnlyOffersTheAgentsKeysOfNamedFilesAlone) {
  const std::string only =
      way_with("  IdentitiesOnly yes\n  IdentityAgent " + socket_ + "\n") + "  IdentityFile ";
  add_to_agent(other_);
  configure(only + other_ + "\n");
  expect_refusal(Errc::kAuth, "the keys of ssh-agent that IdentitiesOnly allows");
  // The private key is in the agent alone.
  std::filesystem::copy_file(sshd_->identity() + ".pub", sshd_->folder() + "/elsewhere.pub");
  configure(only + sshd_->folder() + "/elsewhere\n");
  expect_login("a public key beside the file that is named");
  configure(only + sshd_->folder() + "/elsewhere.pub\n");
  expect_login("a public key that is named itself");
}

TEST_F(SshConfigTest, ARefusalNamesWhatWasTriedAndNothingElse) {
  configure(
      "Host trainbox\n" + host_name() +
      fmt::format("  Port {}\n  UserKnownHostsFile {}\n", sshd_->port(), sshd_->known_hosts()));
  const std::string wrong = alias_.ssh_directory + "/id_ecdsa";
  ASSERT_TRUE(test::make_key(wrong));
  const Error defaults = expect_refusal(Errc::kAuth, "tried " + wrong + ";");
  EXPECT_EQ(defaults.message.find("IdentityFile"), std::string::npos) << defaults.message;
  configure(*read_file(config_file()) + "  IdentityFile " + alias_.ssh_directory + "/absent\n");
  expect_refusal(Errc::kAuth,
                 fmt::format("tried {}/absent (No such file or directory);", alias_.ssh_directory));
  configure(*read_file(config_file()) + "  IdentityFile " + sshd_->identity() + "\n");
  expect_login("as with ssh, an IdentityFile that is absent is passed over");
}

TEST_F(SshConfigTest, MethodsThatTheConfigSwitchesOffAreNotUsed) {
  for (const char* off : {"PubkeyAuthentication no", "PreferredAuthentications password"}) {
    configure("Host trainbox\n" + host_name() + way() + "  " + off + "\n");
    const Error error = expect_refusal(Errc::kAuth, config_file() + " allows ");
    EXPECT_NE(error.hint.find("PubkeyAuthentication"), std::string::npos) << error.hint;
  }
  EXPECT_EQ(sshd_->log_with("Connection closed").find("Accepted"), std::string::npos);
}

TEST_F(SshConfigTest, MethodsAreTriedInTheOrderThatTheConfigPrefers) {
  if (const std::string why = Sshd::missing_for_passwords(); !why.empty()) GTEST_SKIP() << why;
  for (const auto& [server, preferred, accepted] :
       {std::tuple("PermitTunnel=no", "publickey,password", "Accepted publickey"),
        std::tuple("PermitTunnel=no", "password,publickey", "Accepted password"),
        std::tuple("AuthenticationMethods=password,publickey", "publickey,password",
                   "Accepted publickey")}) {
    sshd_.reset();
    auto sshd = Sshd::start("127.0.0.2", test::SshdLogin::kPassword, {server});
    ASSERT_TRUE(sshd) << sshd.error().message;
    sshd_ = *std::move(sshd);
    node_.ssh_directory = alias_.ssh_directory = sshd_->folder() + "/dot_ssh";
    std::filesystem::create_directory(node_.ssh_directory);
    configure("Host trainbox\n" + host_name() + way() + "  PreferredAuthentications " + preferred +
              "\n");
    LoginAnswers answers([](std::string_view, bool) { return std::string(Sshd::kPassword); });
    const auto launcher = log_in(answers, [&](Login& login) {
      return make_ssh_launcher(alias_, within(seconds(20)), &login);
    });
    EXPECT_TRUE(launcher) << server << ": " << launcher.error().message;
    EXPECT_NE(sshd_->log_with(accepted).find(accepted), std::string::npos) << server;
  }
}

TEST_F(SshConfigTest, AHostKeyAliasStandsInKnownHosts) {
  const std::string key = *read_file(sshd_->folder() + "/host_key.pub");
  configure("Host trainbox\n" + host_name() + way() + "  HostKeyAlias Box-7\n");
  expect_refusal(Errc::kAuth, "is not in " + sshd_->known_hosts());
  // Whose config it is may not name machines in the known_hosts of others.
  const auto refused = ask_host_key(alias_, within(seconds(20)));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("/config sets its HostKeyAlias to box-7"),
            std::string::npos)
      << refused.error().message;
  const std::string own = std::filesystem::path(config_file()).parent_path() / "known_hosts";
  configure("Host trainbox\n  HostKeyAlias Box-7\n  UserKnownHostsFile " + own + "\n" +
            host_name() + way());
  write(own, "");
  const auto shown = ask_host_key(alias_, within(seconds(20)));
  ASSERT_TRUE(shown) << shown.error().message;
  EXPECT_TRUE(shown->line.starts_with("box-7 ssh-ed25519 ")) << shown->line;
  ASSERT_TRUE(add_host_key(*shown));
  expect_login("trusted by its alias");
  const std::string other = sshd_->folder() + "/other_key";
  ASSERT_TRUE(test::make_key(other));
  write(own, "box-7 " + *read_file(other + ".pub"));
  const Error changed = expect_refusal(Errc::kAuth, "has changed");
  EXPECT_NE(changed.hint.find("-R \"box-7\""), std::string::npos) << changed.hint;
}

TEST_F(SshConfigTest, EveryKnownHostsFileCounts) {
  const std::string folder = sshd_->folder();
  const std::string line = *read_file(sshd_->known_hosts());
  const std::string key = folder + "/other_key";
  ASSERT_TRUE(test::make_key(key));
  const std::string other =
      fmt::format("[{}]:{} {}", sshd_->address(), sshd_->port(), *read_file(key + ".pub"));
  const auto files = [&](const std::string& one, const std::string& two, const std::string& all) {
    write(folder + "/one", one);
    write(folder + "/two words", two);
    write(folder + "/all", all);
    configure("Host trainbox\n" + host_name() +
              fmt::format("  Port {0}\n  IdentityFile {1}\n  UserKnownHostsFile {2}/absent {2}/one "
                          "\"{2}/two words\"\n  GlobalKnownHostsFile {2}/all\n",
                          sshd_->port(), sshd_->identity(), folder));
  };
  for (const auto& [one, two, all] :
       {std::tuple(line, other, std::string()), std::tuple(std::string(), line, std::string()),
        std::tuple(std::string(), std::string(), line)}) {
    files(one, two, all);
    expect_login("the key is in one of them");
  }
  files("", "", "");
  expect_refusal(Errc::kAuth, fmt::format("is not in {0}/one, {0}/two words;", folder));
  files("", other, "");
  expect_refusal(Errc::kAuth, "not the one in " + folder + "/two words:1.");
  files("", "", other);
  expect_refusal(Errc::kAuth, "not the one in " + folder + "/all:1.");
  files(line, "", "@revoked * " + *read_file(folder + "/host_key.pub"));
  expect_refusal(Errc::kAuth, "revoked in " + folder + "/all");
  files(line, "",
        std::string(17U << 20U, '#') + "\n@revoked * " + *read_file(folder + "/host_key.pub"));
  expect_refusal(Errc::kAuth, "revoked in " + folder + "/all");
}

TEST_F(SshConfigTest, AFileThatCannotKeepAKeyTakesNone) {
  for (const char* file : {"/dev/null", "none"}) {
    configure("Host trainbox\n" + host_name() + way());
    write(config_file(),
          "UserKnownHostsFile " + std::string(file) + "\n" + *read_file(config_file()));
    const Error unknown = expect_refusal(Errc::kAuth, "is not in /dev/null");
    EXPECT_NE(unknown.hint.find("/dev/null keeps no keys: set `known_hosts` in the cluster file"),
              std::string::npos)
        << unknown.hint;
    const auto shown = ask_host_key(alias_, within(seconds(20)));
    ASSERT_FALSE(shown);
    EXPECT_NE(shown.error().message.find("its key would be added to /dev/null"), std::string::npos);
  }
  ShownHostKey key;
  key.line = "host ssh-ed25519 AAAA";
  key.known_hosts = sshd_->folder() + "/known_hosts.d";
  std::filesystem::create_directory(key.known_hosts);
  const Status added = add_host_key(key);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Errc::kUsage);
  EXPECT_NE(added.error().message.find("not a regular file"), std::string::npos);
}

TEST_F(SshConfigTest, TokensOfAProxyCommandAreThoseOfSsh) {
  configure("Host trainbox\n" + host_name() + way() +
            fmt::format("  User {1}\n  ProxyCommand sh -c \"echo '%n %h %p %r 100%%' > {0}/said; "
                        "exec /usr/sbin/sshd -i -f /dev/null -o UsePAM=no -o StrictModes=no "
                        "-o HostKey={0}/host_key -o AuthorizedKeysFile={0}/authorized_keys\"\n",
                        sshd_->folder(), local_user()));
  expect_login();
  EXPECT_EQ(*read_file(sshd_->folder() + "/said"),
            fmt::format("trainbox {} {} {} 100%\n", sshd_->address(), sshd_->port(), local_user()));
}

TEST_F(SshConfigTest, TheAddressFamilyAndTheTimeoutOfTheConfigHold) {
  configure("Host trainbox\n" + host_name() + way() + "  AddressFamily inet6\n");
  expect_refusal(Errc::kUnreachable, sshd_->address());
  // A server that never says anything: the launcher's own deadline is beyond that of the test.
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof where;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&where), size), 0);
  ASSERT_EQ(::listen(listener.get(), 4), 0);
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&where), &size);
  configure(fmt::format("Host trainbox\n  HostName 127.0.0.1\n  Port {}\n  ConnectTimeout 1\n",
                        ntohs(where.sin_port)));
  const auto launcher = make_ssh_launcher(alias_, within(seconds(1000)));
  ASSERT_FALSE(launcher);
  EXPECT_EQ(launcher.error().code, Errc::kUnreachable) << launcher.error().message;
}

TEST_F(SshConfigTest, AlgorithmsOfTheConfigAreUsed) {
  configure("Host trainbox\n" + host_name() + way() +
            "  Ciphers aes256-ctr\n  MACs hmac-sha2-512\n  KexAlgorithms ecdh-sha2-nistp384\n"
            "  HostKeyAlgorithms ssh-ed25519\n  RekeyLimit 1G 1h\n  Compression yes\n");
  expect_login("algorithms that the server has");
  configure("Host trainbox\n" + host_name() + way() + "  KexAlgorithms sntrup761x25519-sha512\n");
  expect_refusal(Errc::kUsage,
                 "config:6: kexalgorithms sntrup761x25519-sha512: none of them is "
                 "supported");
}

TEST_F(SshConfigTest, ChaChaIsTheCipherUnlessTheConfigOrTheServerSaysOtherwise) {
  const auto expect_cipher = [&](const std::string& server, const std::string& lines,
                                 const std::string& cipher) {
    restart({"LogLevel=DEBUG1", "Ciphers=" + server});
    alias_.ssh_directory = node_.ssh_directory;
    configure("Host trainbox\n" + host_name() + way() + lines);
    expect_login(cipher.c_str());
    for (const char* way : {"client->server", "server->client"}) {
      const std::string chosen = fmt::format("kex: {} cipher: {}", way, cipher);
      EXPECT_NE(sshd_->log_with(chosen).find(chosen), std::string::npos) << chosen;
    }
  };
  const std::string all = "aes128-gcm@openssh.com,chacha20-poly1305@openssh.com,aes256-ctr";
  expect_cipher(all, "", "chacha20-poly1305@openssh.com");
  expect_cipher(all, "  Ciphers aes128-gcm@openssh.com\n", "aes128-gcm@openssh.com");
  expect_cipher("aes128-gcm@openssh.com", "", "aes128-gcm@openssh.com");
  expect_cipher("aes128-gcm@openssh.com,aes256-ctr", "", "aes256-ctr");
}

TEST_F(SshConfigTest, TheLibraryIsNamedWithItsVersion) {
  EXPECT_TRUE(ssh_library().starts_with("libssh 0.") || ssh_library().starts_with("libssh 1."))
      << ssh_library();
}

TEST_F(SshConfigTest, AnUnsupportedOptionStopsBeforeAnythingIsSent) {
  configure("Host trainbox\n" + host_name() + way() + "  BindAddress 127.0.0.1\n");
  const Error error = expect_refusal(
      Errc::kUsage, "alias: " + config_file() + ":6: bindaddress 127.0.0.1: not supported");
  EXPECT_NE(error.hint.find("launcher = "), std::string::npos) << error.hint;
}

}  // namespace
}  // namespace paddle::remote
