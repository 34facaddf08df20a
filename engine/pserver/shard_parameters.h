// The parameters of one shard: dense blocks or sparse tables, and the policy that updates them. All
// come to be when the first trainer names the parameter set.
#pragma once

#include <optional>

#include "engine/pserver/delay_compensation.h"
#include "engine/pserver/merge.h"
#include "engine/pserver/options.h"
#include "engine/table/dense_table.h"

namespace paddle::pserver {

// Contents of a port, and its work since the process began.
struct ShardStatistics {
  std::uint64_t rows = 0;   // of sparse tables
  std::uint64_t bytes = 0;  // parameters and optimizer state
  std::uint64_t pushes = 0;
  std::uint64_t batches = 0;  // a merged push has several
  // Pushes by lag: 0, 1, 2-3, 4-7, ... A push's lag is the number of batches that the shard had
  // applied since it last gave the trainer values or rows.
  std::vector<std::uint64_t> lags;
};

class ShardParameters {
 public:
  explicit ShardParameters(const ShardOptions& options) : options_(options) {}

  Refused create(const wire::ParameterSet& set);
  bool is_created() const { return set_.has_value(); }
  // The rest is for after create().
  const wire::ParameterSet& set() const { return *set_; }
  const std::string& name(std::uint32_t parameter) const {
    return set_->parameters(static_cast<int>(parameter)).name();
  }
  const UpdatePolicy& policy() const { return *policy_; }
  float gradient_limit() const { return gradient_limit_; }

  // Null on a sparse shard, and before create().
  table::DenseTable* dense() { return dense_ ? &*dense_ : nullptr; }
  const table::DenseTable* dense() const { return dense_ ? &*dense_ : nullptr; }
  // Null unless the job compensates delay on a dense shard.
  DelayCompensation* compensation() { return compensation_ ? &*compensation_ : nullptr; }
  // Null where the parameter is none of this shard's tables.
  table::SparseTable* table(std::uint32_t parameter) const {
    return parameter < tables_.size() ? tables_[parameter].get() : nullptr;
  }
  const SparseTables& tables() const { return tables_; }
  // Floats of a row, in a pull and in a push.
  RowWidths widths() const { return widths_; }
  RowWidths push_widths() const { return push_widths_; }

  // Empties the tables, for a shard that goes back to a cut; dense values stay where they are.
  void clear_tables();
  // Takes the initial values again.
  void begin_anew();

  // Makes sure of memory for the segments' rows, `contributors` times, so that applying them cannot
  // fail. Refuses what would go over the port's limit or a table's own.
  Refused make_room(std::span<const RowSegment> segments, std::uint64_t contributors,
                    const Membership& membership);
  // Ages the tables at the end of a pass and adds their status to its totals.
  Status end_pass(wire::PassFinished& totals);
  void measure(ShardStatistics& statistics) const;
  std::uint64_t bytes() const;  // of parameters and optimizer state

 private:
  Refused create_dense(const wire::ParameterSet& set);
  void create_tables(const wire::ParameterSet& set);
  Refused check_table(std::uint32_t parameter, std::span<const RowSegment> segments,
                      std::uint64_t contributors) const;
  Refused check_port(std::uint64_t held, std::span<const RowSegment> segments,
                     std::uint64_t contributors) const;

  const ShardOptions& options_;
  std::optional<wire::ParameterSet> set_;
  std::unique_ptr<UpdatePolicy> policy_;
  float gradient_limit_ = 0;
  std::optional<table::DenseTable> dense_;
  std::optional<DelayCompensation> compensation_;
  SparseTables tables_;
  std::vector<std::uint64_t> widths_;
  std::vector<std::uint64_t> push_widths_;
};

}  // namespace paddle::pserver
