// The cuts of a simulated job, for its invariants: what each port was at each of them, and which of
// them must outlive its process.
#pragma once

#include <map>

#include "tests/sim/model.h"
#include "tests/sim/shard_disk.h"

namespace paddle::sim {

class CutRecords {
 public:
  // All that a port is, as one number, at a step.
  struct State {
    std::uint64_t step = 0;
    std::uint64_t hash = 0;
    bool operator==(const State&) const = default;
  };

  explicit CutRecords(const Model& model) : model_(model), ports_(model.shards()) {}

  void on_begin(std::uint32_t shard, std::uint64_t cut, State state);
  // As the port knows them now; "" or what is wrong.
  void set_whole(std::uint32_t shard, std::vector<std::uint64_t> whole);
  // The cuts of the port that trainer 0 hears of, and chooses from.
  void set_told(std::uint32_t shard, std::vector<std::uint64_t> cuts) {
    ports_[shard].told = std::move(cuts);
  }
  // After a new life has opened its cuts: "" or what is lost.
  std::string on_opened(std::uint32_t shard, const std::vector<std::uint64_t>& whole);
  void on_read(std::uint32_t shard, std::uint64_t cut) { ports_[shard].read = cut; }
  // A port has gone back: "" or why it is not what it was at the cut, or which newer cut it could
  // have gone back to.
  std::string check_gone_back(std::uint32_t shard, State now);
  // All ports that have lost their parameters could go back to cuts now.
  bool has_way_back() const;
  void on_anew(std::uint32_t shard);  // a port has begun without a cut

  std::uint64_t whole_cuts() const { return whole_cuts_; }
  std::uint64_t common_cuts() const { return common_cuts_; }

 private:
  struct Port {
    std::map<std::uint64_t, State> states;  // by cut, of the newest that began
    std::vector<std::uint64_t> whole, told;
    std::uint64_t read = 0;
  };
  void note_common();
  std::uint64_t newest_told(std::uint32_t shard) const;

  const Model& model_;
  std::vector<Port> ports_;
  std::uint64_t newest_common_ = 0;  // of the ports in rounds
  std::uint64_t whole_cuts_ = 0;
  std::uint64_t common_cuts_ = 0;
};

}  // namespace paddle::sim
