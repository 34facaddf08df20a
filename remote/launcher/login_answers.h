// Passwords and whatever else servers ask of a person: asked once, kept in memory for this run.
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
constexpr int kQuestionsMax = 3;        // about the same password, before we give up
constexpr int kPromptQuestionsMax = 6;  // for answers to one server's own prompts

// What a person typed: wiped when it dies, never formatted by accident.
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
  std::string place;     // "host:port"
  bool bastion = false;  // what it is told is told to no node, nor to another bastion
  std::string prompt;    // the server's own words, as they came; "": the password of `user`
  bool echo = false;     // may be seen while it is typed
};

// One password of a user is tried on every node that asks for one; a node that refuses what another
// took is asked about by itself. Every call may come from several threads at once.
class LoginAnswers {
 public:
  // One line from the person; nothing when there is nobody, or nothing was said.
  using Ask = std::function<std::optional<std::string>(std::string_view question, bool secret)>;
  explicit LoginAnswers(Ask ask) : ask_(std::move(ask)) {}

  // The first line of a file that is ours and nobody else's to read: the password of every node and
  // bastion, in place of asking. kAuth when others may read it, kUsage when it holds none.
  Status use_password_file(const std::string& path);

  // What is known already; null when a person has to say it. Answers to prompts are given once.
  Answer find(const LoginQuestion& question);
  // The server took it: the same place gets the same again.
  void accepted(const LoginQuestion& question, const Answer& answer);
  // Whether some server took it.
  bool is_proven(const LoginQuestion& question, const Answer& answer);
  // Returns once there is something else to try than `refused` (null: nothing was tried). Waits for
  // the person, and for the questions of other threads. kAuth when there is nothing to be had.
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
  std::mutex asking_;    // held while the person types
  std::mutex mutex_;     // guards what follows, never while waiting
  bool silent_ = false;  // nothing was said: nothing more is asked
  std::string file_;     // of the password; "": none
  Answer of_file_;
  std::map<std::string, Known> common_;       // by scope: a user of the nodes, or one on a bastion
  std::map<std::string, Known> own_;          // by user and place
  std::map<std::string, Answer> once_;        // by user, place and prompt
  std::map<std::string, int> prompts_asked_;  // by user and place
};

// One attempt to reach one node, through all bastions before it.
class Login {
 public:
  explicit Login(LoginAnswers& answers) : answers_(answers) {}

  LoginAnswers& answers() { return answers_; }
  // Null: not known yet, and the attempt fails for that.
  Answer answer(const LoginQuestion& question);
  // The attempt fails because the server refused it.
  void refuse(const LoginQuestion& question, Answer answer);

  bool lacks_answer() const { return missing_.has_value(); }
  Status obtain() { return answers_.obtain(*missing_, refused_); }

 private:
  LoginAnswers& answers_;
  std::optional<LoginQuestion> missing_;
  Answer refused_;
};

// Attempts until it worked, failed for another reason, or the person has no answer. No connection
// is held while somebody types, so that no deadline runs out meanwhile.
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
