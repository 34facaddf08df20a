#include "remote/launcher/login_answers.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/text.h"
#include "base/text_file.h"

namespace paddle::remote {
namespace {

constexpr std::size_t kPromptBytesShown = 200;
constexpr const char* kNoTerminalHint =
    "install a key with ssh-copy-id, run this in a terminal, or give --password-file";

std::string account_of(const LoginQuestion& question) {
  return question.user + "@" + question.server;
}

std::string shown_server(const LoginQuestion& question) {
  return question.known_as.empty() ? question.server
                                   : fmt::format("{} ({})", question.known_as, question.server);
}

std::string scope_of(const LoginQuestion& question) {
  return question.bastion ? account_of(question) : question.user;
}

std::string once_of(const LoginQuestion& question) {
  return account_of(question) + " " + question.prompt;
}

Error refused_error(int count, const char* what, const LoginQuestion& question) {
  return {Errc::kAuth, fmt::format("{} {} were refused for user {}", count, what, question.user),
          "check that `user` is right, run the command again to try another password, or install a "
          "key with ssh-copy-id"};
}

void wipe(std::string& text) {
  ::explicit_bzero(text.data(), text.size());
  text.clear();
}

// Reads the first line, at most kAnswerBytesMax long.
Result<std::string> first_line(int fd, const std::string& path) {
  std::string line;
  line.reserve(kAnswerBytesMax + 1);  // a string that grows leaves copies behind
  for (char one = 0; line.size() <= kAnswerBytesMax;) {
    const ssize_t got = ::read(fd, &one, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(Errc::kUsage, "read " + path);
    if (got == 0 || one == '\n') break;
    line.push_back(one);
  }
  // Windows editors write a byte order mark first and a carriage return at the end of a line.
  line.erase(0, line.size() - without_byte_order_mark(line).size());
  if (line.ends_with('\r')) line.pop_back();
  if (!line.empty() && line.size() <= kAnswerBytesMax) return line;
  wipe(line);
  return Error{
      Errc::kUsage,
      fmt::format("{}: the first line must be a password of 1 to {} bytes", path, kAnswerBytesMax),
      ""};
}

}  // namespace

TypedSecret::TypedSecret(std::string& typed) : text_(typed) {
  wipe(typed);
}

TypedSecret::~TypedSecret() {
  wipe(text_);
}

Status LoginAnswers::use_password_file(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return system_error(Errc::kUsage, "open " + path);
  struct stat about {};
  if (::fstat(fd.get(), &about) != 0) return system_error(Errc::kUsage, "stat " + path);
  if (about.st_uid != ::geteuid() || (about.st_mode & 077) != 0) {
    return Error{Errc::kAuth, path + " contains a password, so only you may have access to it",
                 "chmod 600 " + path};
  }
  PADDLE_TRY(std::string line, first_line(fd.get(), path));
  file_ = path;
  of_file_ = std::make_shared<const TypedSecret>(line);
  return {};
}

Answer LoginAnswers::known_password(const LoginQuestion& question) {
  if (of_file_) return of_file_;
  if (const auto own = own_.find(account_of(question)); own != own_.end())
    return own->second.answer;
  const auto common = common_.find(scope_of(question));
  return common == common_.end() ? nullptr : common->second.answer;
}

Answer LoginAnswers::find(const LoginQuestion& question) {
  const std::lock_guard lock(mutex_);
  if (question.prompt.empty()) return known_password(question);
  const auto found = once_.find(once_of(question));
  if (found == once_.end()) return nullptr;
  return once_.extract(found).mapped();
}

void LoginAnswers::accepted(const LoginQuestion& question, const Answer& answer) {
  const std::lock_guard lock(mutex_);
  prompts_asked_.erase(account_of(question));
  if (!question.prompt.empty()) return;
  own_[account_of(question)] = {answer, true, 0};
  Known& common = common_[scope_of(question)];
  if (common.answer == answer) common.proven = true;
}

bool LoginAnswers::is_proven(const LoginQuestion& question, const Answer& answer) {
  const std::lock_guard lock(mutex_);
  const auto own = own_.find(account_of(question));
  const auto common = common_.find(scope_of(question));
  return (own != own_.end() && own->second.proven && own->second.answer == answer) ||
         (common != common_.end() && common->second.proven && common->second.answer == answer);
}

Result<Answer> LoginAnswers::ask(const std::string& text, bool secret) {
  std::optional<std::string> line = ask_ ? ask_(text, secret) : std::nullopt;
  if (line && !line->empty()) return Answer(std::make_shared<const TypedSecret>(*line));
  const std::lock_guard lock(mutex_);
  silence_ = line ? "no answer was given" : "there is no terminal to ask on";
  return Error{Errc::kAuth, silence_, kNoTerminalHint};
}

Status LoginAnswers::obtain(const LoginQuestion& question, const Answer& refused) {
  const std::lock_guard one_at_a_time(asking_);
  {
    const std::lock_guard lock(mutex_);
    if (question.prompt.empty()) {
      const Answer known = known_password(question);
      if (known && known != refused) return {};  // another thread obtained it
      if (of_file_) {
        return Error{Errc::kAuth,
                     fmt::format("the password in {} is refused for user {}", file_, question.user),
                     "check that it is the password of this user, or run without --password-file "
                     "to type it"};
      }
    }
    if (!silence_.empty()) return Error{Errc::kAuth, silence_, kNoTerminalHint};
  }
  return question.prompt.empty() ? obtain_password(question, refused) : obtain_prompt(question);
}

Status LoginAnswers::obtain_password(const LoginQuestion& question, const Answer& refused) {
  bool alone = false;  // other servers accepted what this one refused
  int asked = 0;
  {
    const std::lock_guard lock(mutex_);
    const Known& common = common_[scope_of(question)];
    alone = own_.contains(account_of(question)) || common.proven;
    Known& known = alone ? own_[account_of(question)] : common_[scope_of(question)];
    asked = known.asked++;
    if (!known.answer && alone) known.answer = refused;
  }
  if (asked >= kQuestionsMax) {
    return refused_error(kQuestionsMax, "passwords", question);
  }
  const std::string where = fmt::format(
      "{} on {}{}{}", question.user, question.bastion ? "bastion " : "", shown_server(question),
      question.bastion || alone ? "" : " (and on every node that accepts it)");
  const char* const why = !refused     ? ""
                          : asked == 0 ? "this node refuses the password of the other nodes: "
                                       : "wrong, try again: ";
  PADDLE_TRY(Answer answer, ask(fmt::format("{}password of {}: ", why, where), true));
  const std::lock_guard lock(mutex_);
  (alone ? own_[account_of(question)] : common_[scope_of(question)]).answer = std::move(answer);
  return {};
}

Status LoginAnswers::obtain_prompt(const LoginQuestion& question) {
  {
    const std::lock_guard lock(mutex_);
    if (prompts_asked_[account_of(question)]++ >= kPromptQuestionsMax) {
      return refused_error(kPromptQuestionsMax, "answers", question);
    }
  }
  const std::string shown = escape_control(question.prompt.substr(0, kPromptBytesShown));
  PADDLE_TRY(Answer answer,
             ask(fmt::format("{}@{} asks: {} ", question.user, shown_server(question), shown),
                 !question.echo));
  const std::lock_guard lock(mutex_);
  once_[once_of(question)] = std::move(answer);
  return {};
}

Answer Login::answer(const LoginQuestion& question) {
  Answer known = answers_.find(question);
  if (!known) refuse(question, nullptr);
  return known;
}

void Login::refuse(const LoginQuestion& question, Answer answer) {
  missing_ = question;
  refused_ = std::move(answer);
}

}  // namespace paddle::remote
