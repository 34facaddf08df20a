// The options of a host in ~/.ssh/config and /etc/ssh/ssh_config, as OpenSSH's own `ssh -G` reads
// them. Host, Match, Include, lists, quotes and defaults are left to it, so they mean what they
// mean to the user's ssh, whatever its version. A config elsewhere, which may have come with a
// cluster file, starts no program (ProxyCommand, Match exec) unless NodeSpec allows it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "remote/launcher/launcher.h"

namespace paddle::remote {

class OpensshConfig {
 public:
  // Nothing is set when there is no such file; then ssh need not be installed. kUsage with file and
  // line for what ssh refuses, and for an option that would change where or how ssh connects and is
  // not supported here. `node` has a host and user that were checked.
  static Result<OpensshConfig> ask(const NodeSpec& node, TimePoint deadline);

  // True when the value is not the default of the installed ssh. Options are in lower case.
  bool is_set(std::string_view option) const;
  const std::string& file() const { return file_; }  // the user's, or that of the system
  // As ssh prints it; "" when it prints none.
  std::string value(std::string_view option) const;
  // Of an option that may be given several times.
  std::vector<std::string> values(std::string_view option) const;

  // "<file>:<line>: <option> <value>: <why>".
  Error refusal(const std::string& option, const std::string& value, std::string_view why) const;

 private:
  using Answer = std::map<std::string, std::vector<std::string>, std::less<>>;

  static const Result<Answer>& defaults();
  Status refuse_unsupported() const;
  Result<Answer> read(TimePoint deadline) const;
  std::string location(const std::string& option, const std::string& value) const;

  std::vector<std::string> arguments_;  // of ssh
  bool starts_programs_ = true;
  std::string file_;
  Answer answer_;
};

// The folder of config, known_hosts and the default keys.
std::string ssh_directory(const NodeSpec& node);

}  // namespace paddle::remote
