// A snapshot as a job takes it up: checked against the job's parameters, with values and optimizer
// state in the form that the job keeps.
#pragma once

#include <string>
#include <vector>

#include "engine/snapshot/reader.h"
#include "proto/wire.pb.h"

namespace paddle::snapshot {

class SnapshotSource {
 public:
  // Both outlive it.
  SnapshotSource(const wire::ParameterSet& set, const SnapshotReader& reader);

  // kData: it is of another network. Logs what of the snapshot is not taken up.
  Status check() const;
  // Where the job goes on; one that only starts with the parameters counts its own passes. kUsage:
  // it is from the middle of a pass, with another number of trainers.
  Result<wire::LoadBegin> place(bool resumes) const;
  // Where the trainers were within a pass; empty where they are to begin one.
  wire::PassOrigins origins(bool resumes) const;
  struct Dense {
    std::vector<float> value;
    std::vector<float> state;  // planes
    std::uint64_t update_count = 0;
  };
  Result<Dense> dense(std::uint32_t parameter) const;
  // Appends the value and the state of a table's row in that form, and returns its marks. kData: it
  // is of another width.
  Result<parameter::RowMarks> append(const wire::ParameterSpec& spec, const SparseRow& row,
                                     std::vector<float>& values, std::vector<float>& state) const;

 private:
  // Turns values and state of a snapshot into those of a shard; without its state, into those of a
  // parameter that was never updated.
  void convert(const wire::ParameterSpec& spec, std::span<float> value,
               std::span<float> state) const;

  const wire::ParameterSet& set_;
  const SnapshotReader& reader_;
  bool with_state_;
};

}  // namespace paddle::snapshot
