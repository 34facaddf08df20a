// Configurations that are refused, and the words in which their reader learns why.
#include <sys/stat.h>

#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/unit/remote/launcher/ssh_target_fixture.h"

namespace paddle::remote {
namespace {

TEST_F(SshTargetTest, AConfigOfAClusterFileRunsNothingUnlessAllowed) {
  const std::string ran = folder_ / "ran";
  const std::string run = fmt::format("exec \"touch {}\"", ran);
  folder_.write("more", "Match " + run + "\n  User other\n");
  for (const std::string& text : std::vector<std::string>{
           "Match " + run + "\n", "match host=n2 !" + run + "\n", "\tMATCH EXEC touch\n",
           "Include " + (folder_ / "more") + "\n",
           "Host *\n include=\"" + (folder_ / "more") + "\"\n", "ProxyCommand touch " + ran + "\n",
           "Host n*\n  proxycommand = sh -c 'touch " + ran + "'\n"}) {
    node_.allow_proxy_command = false;
    const Error refused = refusal_of(text);
    EXPECT_EQ(refused.code, Errc::kUsage) << text;
    EXPECT_TRUE(refused.message.starts_with(folder_.path() + "/")) << refused.message;
    EXPECT_NE(refused.hint.find("--allow-proxy-command"), std::string::npos)
        << refused.message << refused.hint;
    EXPECT_FALSE(std::filesystem::exists(ran)) << text;
  }
  for (const char* text : {"Host exec\n  User x\n", "Match host executor\n", "# Match exec x\n"}) {
    folder_.write("config", text);
    EXPECT_TRUE(resolve(node_, soon())) << text;
  }
  node_.allow_proxy_command = true;
  folder_.write("config", "Include " + (folder_ / "more") + "\n");
  EXPECT_TRUE(resolve(node_, soon()));
  EXPECT_TRUE(std::filesystem::exists(ran)) << "allowed";
}

TEST_F(SshTargetTest, AFolderThatOthersMayWriteIsNotBelieved) {
  folder_.write("config", "User x\n");
  folder_.write("known_hosts", "");
  EXPECT_TRUE(resolve(node_, soon()));
  for (const std::string& open : {folder_.path(), config_file(), folder_ / "known_hosts"}) {
    std::filesystem::permissions(open, std::filesystem::perms::others_write,
                                 std::filesystem::perm_options::add);
    const auto refused = resolve(node_, soon());
    ASSERT_FALSE(refused) << open;
    EXPECT_EQ(refused.error().code, Errc::kAuth);
    EXPECT_EQ(refused.error().hint, "chmod go-w " + open);
    std::filesystem::permissions(open, std::filesystem::perms::others_write,
                                 std::filesystem::perm_options::remove);
  }
}

TEST_F(SshTargetTest, FilesThatTheClusterFileNamesAreBelievedOnlyWhereNobodyElseWritesThem) {
  const std::string hosts = folder_.write("lab/known_hosts", "");
  const std::string identity = folder_.write("keys/id", "");
  node_.known_hosts = hosts;
  node_.identity = identity;
  EXPECT_TRUE(resolve(node_, soon()));
  for (const std::string& open : {hosts, folder_ / "lab", identity, folder_ / "keys"}) {
    std::filesystem::permissions(open, std::filesystem::perms::others_write,
                                 std::filesystem::perm_options::add);
    const auto refused = resolve(node_, soon());
    ASSERT_FALSE(refused) << open;
    EXPECT_EQ(refused.error().code, Errc::kAuth);
    EXPECT_EQ(refused.error().hint, "chmod go-w " + open);
    EXPECT_NE(refused.error().message.find(open.find("lab") != open.npos ? "`known_hosts` of node"
                                                                         : "`identity` of node"),
              std::string::npos)
        << refused.error().message;
    std::filesystem::permissions(open, std::filesystem::perms::others_write,
                                 std::filesystem::perm_options::remove);
  }
  // A name in a sticky folder, where anybody may put the file that is missing.
  const std::string shared = folder_.make("shared");
  std::filesystem::permissions(shared,
                               std::filesystem::perms::all | std::filesystem::perms::sticky_bit);
  node_.known_hosts = shared + "/known_hosts";
  EXPECT_FALSE(resolve(node_, soon()));
  node_.known_hosts.clear();
  folder_.write("config", "UserKnownHostsFile " + shared + "/known_hosts\n");
  EXPECT_FALSE(resolve(node_, soon())) << "the config came with the cluster file";
}

TEST_F(SshTargetTest, UnsupportedOptionsAreRefusedByNameFileAndLine) {
  const std::string included =
      folder_.write("more", "# first\nHost n2\n  BindInterface=\"eth7\"\n");
  for (const auto& [config, place] : std::vector<std::pair<std::string, std::string>>{
           {"Host *\n  BindAddress 10.0.0.1\n", "config:2: bindaddress 10.0.0.1"},
           {"Host other\n BindAddress 1.1.1.1\nHost *\n BINDADDRESS = 10.0.0.1\n",
            "config:4: bindaddress 10.0.0.1"},
           {"Include " + included + "\n", "more:3: bindinterface eth7"},
           {"CertificateFile ~/key-cert.pub\n", "config:1: certificatefile ~/key-cert.pub"},
           {"Host *\nPKCS11Provider /lib/token.so\n", "config:2: pkcs11provider /lib/token.so"},
           {"KnownHostsCommand /bin/keys %H\n", "config:1: knownhostscommand /bin/keys %H"},
           {"RevokedHostKeys /etc/revoked\n", "config:1: revokedhostkeys /etc/revoked"},
           {"ProxyUseFdpass yes\n", "config:1: proxyusefdpass yes"}}) {
    const Error error = refusal_of(config);
    EXPECT_EQ(error.code, Errc::kUsage);
    EXPECT_EQ(error.message, folder_ / (place + ": not supported")) << config;
    EXPECT_NE(error.hint.find("launcher = [\"ssh\", \"-o\", \"BatchMode=yes\", \"n2\"]"),
              std::string::npos)
        << error.hint;
  }
  EXPECT_EQ(refusal_of("Host *\n  IdentityFile ~/k\n  IdentityFile ~/k-%C\n").message,
            folder_ / "config:3: identityfile ~/k-%C: the token %C is not supported");
  EXPECT_EQ(refusal_of("ProxyCommand nc %j\n").message,
            folder_ / "config:1: proxycommand nc %j: the token %j is not supported");
  EXPECT_EQ(refusal_of("IdentityFile ${PADDLE_TEST_NOTHING}/k\n").message,
            folder_ /
                "config:1: identityfile ${PADDLE_TEST_NOTHING}/k: the variable "
                "PADDLE_TEST_NOTHING is not set");
}

TEST_F(SshTargetTest, UnsupportedOptionsThatSayNothingAreNotRefused) {
  folder_.write(
      "config",
      "RevokedHostKeys none\nPKCS11Provider none\nKnownHostsCommand none\n"
      "ProxyUseFdpass no\nSecurityKeyProvider internal\nHost other\n  BindAddress 1.1.1.1\n");
  const auto target = resolve(node_, soon());
  EXPECT_TRUE(target) << target.error().message;
}

TEST_F(SshTargetTest, APipeOrDeviceAmongItsFilesIsRefusedByName) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string option : {"UserKnownHostsFile", "UserKnownHostsFile /dev/null",
                                   "GlobalKnownHostsFile", "IdentityFile"}) {
    const Error error = refusal_of(option + " " + pipe + "\n");
    EXPECT_EQ(error.code, Errc::kUsage);
    EXPECT_EQ(error.message, pipe + ": not a regular file") << option;
    EXPECT_NE(error.hint.find(config_file()), std::string::npos) << error.hint;
  }
  EXPECT_EQ(refusal_of("IdentityFile /dev/zero\n").message, "/dev/zero: not a regular file");
  std::filesystem::create_symlink(pipe, folder_ / "k.pub");
  EXPECT_EQ(refusal_of("IdentityFile " + (folder_ / "k") + "\n").message,
            folder_ / "k.pub: not a regular file");
  const std::string folder = folder_ / "folder";
  std::filesystem::create_directory(folder);
  for (std::string* const key : {&node_.identity, &node_.known_hosts}) {
    const std::string hint = key == &node_.identity
                                 ? "name another in `identity` of the cluster file"
                                 : "name another in `known_hosts` of the";
    for (const std::string& path : {pipe, folder}) {
      *key = path;
      const Error error = refusal_of("");
      EXPECT_EQ(error.message,
                path + (path == pipe ? ": not a regular file" : ": a folder, not a file"));
      EXPECT_NE(error.hint.find(hint), std::string::npos) << error.hint;
    }
    key->clear();
  }
  const Error named = refusal_of("IdentityFile " + folder + "\n");
  EXPECT_EQ(named.message, folder + ": a folder, not a file");
  EXPECT_NE(named.hint.find(config_file()), std::string::npos) << named.hint;
  node_.known_hosts.clear();
  folder_.write("config", "UserKnownHostsFile /dev/null\nGlobalKnownHostsFile none\n");
  EXPECT_TRUE(resolve(node_, soon()));
  ASSERT_EQ(::mkfifo((folder_ / "id_rsa").c_str(), 0600), 0);
  EXPECT_EQ(refusal_of("").message, folder_ / "id_rsa: not a regular file");
}

TEST_F(SshTargetTest, WhatSshRefusesIsSaidInItsWords) {
  const Error unknown = refusal_of("Host *\n  Foo bar\n  Port x\n");
  EXPECT_EQ(unknown.code, Errc::kUsage);
  EXPECT_NE(unknown.message.find("line 2: Bad configuration option: foo"), std::string::npos)
      << unknown.message;
  EXPECT_NE(unknown.message.find("line 3: Bad port 'x'"), std::string::npos) << unknown.message;
  EXPECT_NE(unknown.hint.find("ssh -T -G -F " + config_file() + " -- n2"), std::string::npos)
      << unknown.hint;
  EXPECT_NE(refusal_of("Host n2\n  ProxyJump n2\n").message.find("jumphost loop via n2"),
            std::string::npos);
}

TEST_F(SshTargetTest, AnExecThatHangsEndsAtTheDeadline) {
  folder_.write("config", "Match exec \"sleep 100\"\n  User x\n");
  const auto target = resolve(node_, SteadyClock().now() + std::chrono::milliseconds(300));
  ASSERT_FALSE(target);
  EXPECT_EQ(target.error().code, Errc::kUnreachable);
  EXPECT_NE(target.error().hint.find("Match exec"), std::string::npos) << target.error().hint;
}

}  // namespace
}  // namespace paddle::remote
