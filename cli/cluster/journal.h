// The journal of what paddlectl did to nodes: an append-only file for each job, and one for actions
// that belong to no job, in a folder that only its user can read.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "remote/client/agent_client.h"

namespace paddle::cli {

class Journal {
 public:
  // folder: absolute; "": nothing is kept. complain: called with the first error only; a journal
  // that cannot be written does not stop a command.
  Journal(std::string folder, std::function<void(const Error&)> complain);

  // Adds one line, in one write: time, user@machine, pid, node, the cluster's folder there, action
  // and exit code. Thread-safe.
  void add(const remote::NodeSpec& node, const remote::NodeAction& action) const;

 private:
  std::string path_of(const std::string& job) const;
  Status append(const std::string& path, const std::string& line) const;

  std::string folder_;
  std::function<void(const Error&)> complain_;
  mutable std::atomic<bool> complained_ = false;
  std::string who_;  // user@machine
};

// "alice@laptop".
std::string user_at_machine();

// $XDG_STATE_HOME/paddlectl or ~/.local/state/paddlectl; "" without a home directory.
std::string journal_folder();

}  // namespace paddle::cli
