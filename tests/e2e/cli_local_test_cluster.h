// A cluster of nodes on this machine in a folder of its own, and paddlectl run in that folder as a
// user would.
#pragma once

#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace paddle::test {

struct Outcome {
  int code = -1;       // -1: it did not end before the deadline and was killed
  std::string output;  // stdout and stderr

  bool says(const std::string& text) const { return output.find(text) != std::string::npos; }
};

class LocalCluster {
 public:
  explicit LocalCluster(int nodes);
  // Ends and removes what a failed test left.
  ~LocalCluster();

  // In the cluster's folder; `start` leaves it running.
  Process start(const std::vector<std::string>& arguments);
  Outcome run(const std::vector<std::string>& arguments);
  // In a folder below it.
  Outcome run_in(const std::string& folder, std::vector<std::string> arguments);

  // A copy of a template as workspace <name>; its prepare script makes the data from `text`.
  void copy_template(const std::string& name);
  Outcome prepare(const std::string& name, const std::vector<std::string>& options,
                  const std::string& text);

  // Processes that run from or in this folder: agents, supervisors, engines, paddlectl.
  std::vector<int> processes() const;
  // 0 when there is none: of the engine process that has this argument.
  int find_engine(const std::string& argument) const;
  // Whether, within a deadline, no process is left.
  bool all_gone() const;
  // Whether teardown left neither a node's folder nor a process.
  bool nothing_left() const;

  int first_port() const { return first_port_; }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
  int first_port_ = 0;
  int runs_ = 0;
};

// A thousand words or so in which each word is likely followed by its successor.
std::string chained_sentences(int count);
// "label<TAB>text" lines whose words tell the label nine times of ten.
std::string labelled_texts(int count);
// The costs after "held-out cost " in the order of the passes.
std::vector<double> held_out_costs(const std::string& output);

}  // namespace paddle::test
