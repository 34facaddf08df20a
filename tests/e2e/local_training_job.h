// A small job on this machine: its workspace, and its processes as a user would start them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace paddle::test {

struct Shape {
  int trainers = 1;
  int pservers = 1;   // 0: dense = "collective"
  int ports_num = 1;  // 0: the same, with sparse tables on the pservers
  int ports_num_for_sparse = 1;
  int nodes = 0;  // of node_groups = true, by address; trainers go round them

  bool has_group() const { return pservers == 0 || ports_num == 0; }
  int ports_of_pserver() const { return ports_num + ports_num_for_sparse; }
  // In a row: those of pservers, then those of trainers.
  std::uint16_t ports() const {
    return static_cast<std::uint16_t>(pservers * ports_of_pserver() +
                                      (has_group() || nodes > 0 ? trainers : 0));
  }
};

// Three passes in which clipping, averages, tests and the optimizer's state all count.
inline const std::vector<std::string> kThreePasses{"--num_passes=3",
                                                   "--set=optimizer.method=\"adam\"",
                                                   "--set=optimizer.clip_global_norm=0.5",
                                                   "--set=optimizer.average_window=0.5",
                                                   "--set=optimizer.min_average_window=3",
                                                   "--set=train.log_period=1",
                                                   "--set=train.test_period=4",
                                                   "--set=train.snapshots_kept=9"};
std::vector<std::string> with(std::vector<std::string> flags, const std::vector<std::string>& more);

class Job {
 public:
  explicit Job(std::string trainer_program = PADDLE_PROGRAM)
      : trainer_program_(std::move(trainer_program)) {}

  struct Running {
    std::vector<Process> pservers, trainers;
  };

  // A workspace with a dictionary and `shards` numbered files of sentences, and one held out.
  void write_ngram(int shards, int sentences);
  // The same with dense parameters alone, and as many sentences in file i as counts[i] says.
  void write_dense_ngram(const std::vector<int>& counts);
  // Gives the hidden layer of a job that write_ngram() wrote so many units.
  void widen_ngram(int units);
  // Bags of words with as many records in file i as counts[i] says.
  void write_bags(const std::vector<int>& counts);
  // Clicks of users on items with a price, by a planted rule; the network has most kinds of layer.
  void write_clicks(int shards, int records);

  // Output and snapshots go to <folder>/<name>...; the flags are for every trainer.
  Process start_local(const std::string& name, const std::vector<std::string>& flags);
  Process start_pserver(const std::string& name, const Shape& shape, int id, int base_port,
                        const std::vector<std::string>& flags = {});
  Process start_trainer(const std::string& name, const Shape& shape, int id, int base_port,
                        const std::vector<std::string>& flags,
                        const std::vector<std::string>& environment = {"PATH=/usr/bin:/bin"});
  // All pservers and trainers.
  Running start(const std::string& name, const Shape& shape, const std::vector<std::string>& flags);
  // The same to their ends; true when all exit with 0. Trainer i's output is in
  // output(name, i).
  bool run(const std::string& name, const Shape& shape, const std::vector<std::string>& flags,
           std::chrono::seconds limit = std::chrono::seconds(100));
  bool run_local(const std::string& name, const std::vector<std::string>& flags);

  std::string save_dir(const std::string& name) const { return folder_ / (name + "-save"); }
  std::string output(const std::string& name, int trainer) const;
  std::string metrics(const std::string& name, int trainer) const;
  // By file name, of <save_dir>/pass-0000<pass>.
  std::map<std::string, std::string> snapshot(const std::string& name, int pass) const;
  // Those of them that hold parameters: jobs that differ in their settings may have the same.
  std::map<std::string, std::string> values(const std::string& name, int pass) const;
  const TemporaryFolder& folder() const { return folder_; }

 private:
  std::vector<std::string> train_arguments(const std::string& name, int trainer,
                                           const std::vector<std::string>& flags) const;

  TemporaryFolder folder_;
  std::string trainer_program_;
};

}  // namespace paddle::test
