// A snapshot that a job loads: checked against the job's parameters, with values and optimizer
// state in the form that the job keeps.
#pragma once

#include <string>
#include <vector>

#include "engine/snapshot/reader.h"
#include "proto/wire.pb.h"

namespace paddle::snapshot {

class SnapshotSource {
 public:
  // `set` and `reader` outlive the source.
  SnapshotSource(const wire::ParameterSet& set, const SnapshotReader& reader);

  // kData: the snapshot is of another network. Logs the content of the snapshot that is not used.
  Status check() const;
  // Where the job continues. A job that only starts with the parameters (`resumes` is false) counts
  // its own passes. kUsage: the snapshot is from the middle of a pass, with another number of
  // trainers.
  Result<wire::LoadBegin> place(bool resumes) const;
  // The trainers' positions within a pass; empty if they begin a pass.
  wire::PassOrigins origins(bool resumes) const;
  struct Dense {
    std::vector<float> value;
    std::vector<float> state;  // planes
    std::uint64_t update_count = 0;
  };
  Result<Dense> dense(std::uint32_t parameter) const;
  // The form of a table's rows in the job.
  table::RowForm form(const wire::ParameterSpec& spec) const;
  // Appends a row of the snapshot in that form. kData: the row has another width.
  Status append(const wire::ParameterSpec& spec, const table::Row& row, Bytes& to) const;

 private:
  // Converts values and state of a snapshot to those of a shard. If the snapshot's state is not
  // used, sets the state of a parameter that was never updated.
  void convert(const wire::ParameterSpec& spec, std::span<float> value,
               std::span<float> state) const;

  const wire::ParameterSet& set_;
  const SnapshotReader& reader_;
  bool with_state_;
  bool has_average_;
  std::uint64_t state_width_;  // planes
};

}  // namespace paddle::snapshot
