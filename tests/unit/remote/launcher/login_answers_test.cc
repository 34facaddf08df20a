#include "remote/launcher/login_answers.h"

#include <sys/stat.h>

#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace paddle::remote {
namespace {

// Servers with a password each, and a person who knows some of them.
struct World {
  std::map<std::string, std::string> passwords;  // by place
  std::vector<std::optional<std::string>> said;  // in order; then nothing
  std::vector<std::string> questions;            // as the person saw them
  LoginAnswers answers{[this](std::string_view question, bool secret) {
    EXPECT_TRUE(secret);
    questions.emplace_back(question);
    const std::size_t next = questions.size() - 1;
    return next < said.size() ? said[next] : std::nullopt;
  }};

  Status reach(const std::string& place, bool bastion = false, const std::string& known_as = "") {
    const LoginQuestion question{"train", place, bastion, "", false, known_as};
    return log_in(answers, [&](Login& login) -> Status {
      const Answer answer = login.answer(question);
      if (answer && passwords.at(place) == answer->reveal()) {
        answers.accepted(question, answer);
        return {};
      }
      if (answer) login.refuse(question, answer);
      return Error{Errc::kAuth, place + ": refused", ""};
    });
  }
};

TEST(LoginAnswers, APasswordFileMayComeFromWindows) {
  const test::TemporaryFolder folder;
  for (const char* text :
       {"secret", "secret\n", "secret\r\n", "secret\r", "\xef\xbb\xbfsecret\r\nx\n"}) {
    const std::string file = folder.write("password", text);
    ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
    LoginAnswers answers([](std::string_view, bool) { return std::optional<std::string>(); });
    ASSERT_TRUE(answers.use_password_file(file));
    EXPECT_STREQ(answers.find({"train", "a:22", false, "", false})->reveal(), "secret") << text;
  }
  const std::string file = folder.write("password", "\r\n");
  LoginAnswers answers([](std::string_view, bool) { return std::optional<std::string>(); });
  EXPECT_FALSE(answers.use_password_file(file));
}

TEST(LoginAnswers, OnePasswordIsAskedOnceForEveryNodeThatTakesIt) {
  World world;
  world.said = {"one"};
  for (int i = 0; i < 16; ++i) world.passwords[fmt::format("node{}:22", i)] = "one";
  std::atomic<int> reached = 0;
  {
    std::vector<std::jthread> threads;
    for (const auto& [place, password] : world.passwords) {
      threads.emplace_back([&, place = place] { reached += world.reach(place) ? 1 : 0; });
    }
  }
  EXPECT_EQ(reached, 16);
  ASSERT_EQ(world.questions.size(), 1U);
  EXPECT_TRUE(world.questions[0].starts_with("password of train on ")) << world.questions[0];
  EXPECT_TRUE(world.questions[0].ends_with(" (and on every node that accepts it): "));
}

TEST(LoginAnswers, AnotherPasswordIsAskedForWhereTheFirstIsRefused) {
  World world;
  world.passwords = {{"a:22", "one"}, {"b:22", "two"}, {"c:22", "one"}};
  world.said = {"one", "two"};
  for (const char* place : {"a:22", "b:22", "c:22", "b:22", "a:22"})
    EXPECT_TRUE(world.reach(place)) << place;
  ASSERT_EQ(world.questions.size(), 2U);
  EXPECT_EQ(world.questions[1],
            "this node refuses the password of the other nodes: password of train on b:22: ");
}

TEST(LoginAnswers, AMistypedPasswordIsAskedAgainForAll) {
  World world;
  world.passwords = {{"a:22", "one"}, {"b:22", "one"}};
  world.said = {"oen", "one"};
  EXPECT_TRUE(world.reach("a:22"));
  EXPECT_TRUE(world.reach("b:22"));
  ASSERT_EQ(world.questions.size(), 2U);
  EXPECT_EQ(world.questions[1],
            "wrong, try again: password of train on a:22 (and on every node that accepts it): ");
}

TEST(LoginAnswers, AServerIsNamedAsThePersonKnowsIt) {
  World world;
  world.passwords = {{"10.0.0.1:22", "one"}, {"10.0.0.2:22", "two"}, {"10.0.0.3:22", "three"}};
  world.said = {"three", "one", "two"};
  EXPECT_TRUE(world.reach("10.0.0.3:22", true, "door"));
  EXPECT_TRUE(world.reach("10.0.0.1:22", false, "gpu-1"));
  EXPECT_TRUE(world.reach("10.0.0.2:22", false, "gpu-2"));
  EXPECT_EQ(world.questions,
            (std::vector<std::string>{
                "password of train on bastion door (10.0.0.3:22): ",
                "password of train on gpu-1 (10.0.0.1:22) (and on every node that accepts it): ",
                "this node refuses the password of the other nodes: password of train on gpu-2 "
                "(10.0.0.2:22): "}));
}

TEST(LoginAnswers, StopsAfterThreePasswordsAndWhenNobodyAnswers) {
  World world;
  world.passwords = {{"a:22", "one"}};
  world.said = {"x", "y", "z", "one"};
  const Status refused = world.reach("a:22");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kAuth);
  EXPECT_NE(refused.error().message.find("3 passwords were refused for user train"),
            std::string::npos);
  EXPECT_NE(refused.error().hint.find("check that `user` is right"), std::string::npos);
  EXPECT_EQ(world.questions.size(), 3U);

  World silent;
  silent.passwords = {{"a:22", "one"}, {"b:22", "one"}};
  const Status nobody = silent.reach("a:22");
  ASSERT_FALSE(nobody);
  EXPECT_NE(nobody.error().hint.find("--password-file"), std::string::npos);
  const Status next = silent.reach("b:22");
  ASSERT_FALSE(next);
  EXPECT_EQ(silent.questions.size(), 1U) << "not asked for each node in vain";
  for (const Error& error : {nobody.error(), next.error()})
    EXPECT_NE(error.message.find("there is no terminal to ask on"), std::string::npos);
}

TEST(LoginAnswers, ABastionsPasswordIsToldToNoNode) {
  World world;
  world.passwords = {{"bastion:22", "gate"}, {"a:22", "one"}};
  world.said = {"gate", "one"};
  EXPECT_TRUE(world.reach("bastion:22", true));
  EXPECT_TRUE(world.reach("a:22"));
  EXPECT_TRUE(world.reach("bastion:22", true));
  ASSERT_EQ(world.questions.size(), 2U);
  EXPECT_EQ(world.questions[0], "password of train on bastion bastion:22: ");
  EXPECT_EQ(world.questions[1], "password of train on a:22 (and on every node that accepts it): ");
}

TEST(LoginAnswers, AServersOwnPromptIsEscapedAndItsAnswerGivenOnce) {
  std::vector<std::string> questions;
  LoginAnswers answers([&](std::string_view question, bool secret) {
    EXPECT_FALSE(secret);
    questions.emplace_back(question);
    return std::optional<std::string>("123456");
  });
  const LoginQuestion question{"train", "a:22", false, "Code\x1b]0;pwn\a:", true};
  EXPECT_EQ(answers.find(question), nullptr);
  ASSERT_TRUE(answers.obtain(question, nullptr));
  EXPECT_EQ(questions, std::vector<std::string>{"train@a:22 asks: Code\\x1b]0;pwn\\x07: "});
  const Answer answer = answers.find(question);
  ASSERT_TRUE(answer);
  EXPECT_STREQ(answer->reveal(), "123456");
  EXPECT_EQ(answers.find(question), nullptr) << "a code is good for one login";
}

TEST(LoginAnswers, APasswordFileMayComeFromAnyEditor) {
  for (const char* const text : {"one", "one\n", "one\r\n", "\xef\xbb\xbfone\r\nnot this\r\n"}) {
    const test::TemporaryFolder folder;
    const std::string file = folder.write("password", text);
    ::chmod(file.c_str(), 0600);
    World world;
    world.passwords = {{"a:22", "one"}};
    ASSERT_TRUE(world.answers.use_password_file(file));
    EXPECT_TRUE(world.reach("a:22")) << text;
  }
}

TEST(LoginAnswers, APasswordFileMustBeOursAlone) {
  const test::TemporaryFolder folder;
  const std::string file = folder.write("password", "one\nnot this\n");
  ::chmod(file.c_str(), 0644);
  World world;
  world.passwords = {{"a:22", "one"}, {"b:22", "two"}, {"bastion:22", "one"}};
  EXPECT_EQ(world.answers.use_password_file(file).error().code, Errc::kAuth);
  ::chmod(file.c_str(), 0600);
  ASSERT_TRUE(world.answers.use_password_file(file));
  EXPECT_TRUE(world.reach("a:22"));
  EXPECT_TRUE(world.reach("bastion:22", true));
  const Status refused = world.reach("b:22");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find(file), std::string::npos);
  EXPECT_TRUE(world.questions.empty());
  for (const std::string& bad : {std::string("\n"), std::string(), std::string(2000, 'x')}) {
    const std::string other = folder.write("other", bad);
    ::chmod(other.c_str(), 0600);
    EXPECT_EQ(world.answers.use_password_file(other).error().code, Errc::kUsage);
  }
}

}  // namespace
}  // namespace paddle::remote
