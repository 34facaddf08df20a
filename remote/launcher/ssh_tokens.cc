#include "remote/launcher/ssh_tokens.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"

namespace paddle::remote {
namespace {

struct Account {
  std::string name, home;  // "": there is no such user
};

// The account of a user; "": this user.
Account account_of(const std::string& user) {
  std::vector<char> buffer(16384);
  passwd entry{};
  passwd* found = nullptr;
  const int code = user.empty()
                       ? ::getpwuid_r(::getuid(), &entry, buffer.data(), buffer.size(), &found)
                       : ::getpwnam_r(user.c_str(), &entry, buffer.data(), buffer.size(), &found);
  return code == 0 && found != nullptr ? Account{entry.pw_name, entry.pw_dir} : Account{};
}

}  // namespace

std::string home_directory() {
  const std::string home = account_of("").home;
  return home.empty() ? "/" : home;
}

std::string local_user() {
  return account_of("").name;
}

std::string expand_home(const std::string& path) {
  if (!path.starts_with('~')) return path;
  const std::size_t slash = std::min(path.find('/'), path.size());
  const std::string folder = account_of(path.substr(1, slash - 1)).home;
  return folder.empty() ? path : folder + path.substr(slash);
}

Result<std::string> expand_tokens(std::string_view text, const Tokens& tokens) {
  std::string expanded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      expanded += text[i];
      continue;
    }
    const char token = ++i < text.size() ? text[i] : ' ';
    const auto value = tokens.find(token);
    if (token != '%' && value == tokens.end()) {
      return Error{Errc::kUsage,
                   escape_control(fmt::format("the token %{} is not supported", token)),
                   "write its value instead"};
    }
    expanded += token == '%' ? "%" : value->second;
  }
  return expanded;
}

Result<std::string> expand_variables(std::string_view text) {
  std::string expanded;
  for (;;) {
    const std::size_t begin = text.find("${");
    const std::size_t end = text.find('}', std::min(begin, text.size()));
    expanded += text.substr(0, std::min(begin, text.size()));
    if (end == text.npos) return expanded += text.substr(std::min(begin, text.size()));
    const std::string name(text.substr(begin + 2, end - begin - 2));
    const char* const value = std::getenv(name.c_str());
    if (value == nullptr) {
      return Error{Errc::kUsage, fmt::format("the variable {} is not set", escape_control(name)),
                   "set it, or write its value instead"};
    }
    expanded += value;
    text.remove_prefix(end + 1);
  }
}

}  // namespace paddle::remote
