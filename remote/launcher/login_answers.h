// Passwords and answers to servers' prompts: asked once, kept in memory for this run.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace paddle::remote {

constexpr std::size_t kAnswerBytesMax = 1024;
constexpr int kQuestionsMax = 3;        // for the same password
constexpr int kPromptQuestionsMax = 6;  // for answers to one server's own prompts

// A typed secret: wiped on destruction, never formatted by accident.
class TypedSecret {
 public:
  explicit TypedSecret(std::string& typed);  // wipes `typed` too
  ~TypedSecret();
  TypedSecret(const TypedSecret&) = delete;
  TypedSecret& operator=(const TypedSecret&) = delete;
  const char* reveal() const { return text_.c_str(); }

 private:
  std::string text_;
};
using Answer = std::shared_ptr<const TypedSecret>;

struct LoginQuestion {
  std::string user;
  std::string server;         // "host:port"
  bool bastion = false;       // its answers are used for no node and no other bastion
  std::string prompt;         // the server's own words, unescaped; "": the password of `user`
  bool echo = false;          // the answer may be shown while it is typed
  std::string known_as = {};  // name shown to the user; "": `server`
};

// A user's password is tried on every node that asks for one; if a node refuses it, the user is
// asked for a separate one. Thread-safe.
class LoginAnswers {
 public:
  // One line typed by the user; empty without a terminal, or when nothing was typed.
  using Ask = std::function<std::optional<std::string>(std::string_view question, bool secret)>;
  explicit LoginAnswers(Ask ask) : ask_(std::move(ask)) {}

  // Takes the password of all nodes and bastions from the first line of a file instead of asking.
  // kAuth unless the file is ours and private, kUsage when the line is empty.
  Status use_password_file(const std::string& path);

  // The known answer, or null when the user must be asked. An answer to a prompt is returned only
  // once.
  Answer find(const LoginQuestion& question);
  // Records that the server accepted the answer; the server then gets the same password again.
  void accepted(const LoginQuestion& question, const Answer& answer);
  // Whether any server has accepted the answer.
  bool is_proven(const LoginQuestion& question, const Answer& answer);
  // Returns once an answer other than `refused` is known (null: no answer was tried). Waits for the
  // user, and for other threads' questions. kAuth when no answer can be obtained.
  Status obtain(const LoginQuestion& question, const Answer& refused);

 private:
  struct Known {
    Answer answer;
    bool proven = false;
    int asked = 0;
  };

  Answer known_password(const LoginQuestion& question);
  Result<Answer> ask(const std::string& text, bool secret);
  Status obtain_password(const LoginQuestion& question, const Answer& refused);
  Status obtain_prompt(const LoginQuestion& question);

  Ask ask_;
  std::mutex asking_;    // held during a question
  std::mutex mutex_;     // guards the following; not held while waiting
  std::string silence_;  // why a question was not answered: no further ones are asked; "": none yet
  std::string file_;     // path of the password file; "": none
  Answer of_file_;
  std::map<std::string, Known> common_;       // by scope: a user of the nodes, or one on a bastion
  std::map<std::string, Known> own_;          // by user and server
  std::map<std::string, Answer> once_;        // by user, server and prompt
  std::map<std::string, int> prompts_asked_;  // by user and server
};

// One attempt to log in to a node and the bastions before it.
class Login {
 public:
  explicit Login(LoginAnswers& answers) : answers_(answers) {}

  LoginAnswers& answers() { return answers_; }
  // Null when the answer is not known, which fails the attempt.
  Answer answer(const LoginQuestion& question);
  // Fails the attempt: the server refused the answer.
  void refuse(const LoginQuestion& question, Answer answer);

  bool lacks_answer() const { return missing_.has_value(); }
  Status obtain() { return answers_.obtain(*missing_, refused_); }

 private:
  LoginAnswers& answers_;
  std::optional<LoginQuestion> missing_;
  Answer refused_;
};

// Repeats attempts until one succeeds, fails for another reason, or no answer can be obtained. No
// connection is open during a question, so no deadline expires.
template <class Attempt>
auto log_in(LoginAnswers& answers, const Attempt& attempt) {
  for (;;) {
    Login login(answers);
    auto made = attempt(login);
    if (made || !login.lacks_answer()) return made;
    if (auto got = login.obtain(); !got) {
      Error error = std::move(made).error();
      error.message += "; " + got.error().message;
      if (!got.error().hint.empty()) error.hint = got.error().hint;
      return decltype(made)(std::move(error));
    }
  }
}

}  // namespace paddle::remote
