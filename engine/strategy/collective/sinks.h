// The uses that a rank has for the state that the others send it.
#pragma once

#include "engine/strategy/collective/group_client.h"

namespace paddle::strategy {

class GroupClient::Sink {
 public:
  virtual ~Sink() = default;
  // Where a plane of a parameter goes; it has the parameter's size.
  virtual std::span<float> place(std::uint32_t parameter, std::uint32_t plane) = 0;
  virtual void finish(std::uint32_t parameter) = 0;  // all of its planes are there
};

// Puts averages where a test looks for values.
class GroupClient::AverageSink final : public Sink {
 public:
  AverageSink(const DenseRanks& ranks, std::span<client::DenseParameter> parameters)
      : ranks_(ranks), parameters_(parameters) {}
  std::span<float> place(std::uint32_t parameter, std::uint32_t plane) override;
  void finish(std::uint32_t) override {}

 private:
  const DenseRanks& ranks_;
  std::span<client::DenseParameter> parameters_;
  std::vector<float> unused_;
};

// Adds to a snapshot, one parameter at a time.
class GroupClient::SnapshotSink final : public Sink {
 public:
  SnapshotSink(const wire::ParameterSet& set, const DenseRanks& ranks,
               snapshot::SnapshotWriter& writer)
      : set_(set), ranks_(ranks), writer_(writer) {}
  std::span<float> place(std::uint32_t parameter, std::uint32_t plane) override;
  void finish(std::uint32_t parameter) override;
  const Status& written() const { return written_; }

 private:
  const wire::ParameterSet& set_;
  const DenseRanks& ranks_;
  snapshot::SnapshotWriter& writer_;
  Status written_;  // the first failure
  std::vector<float> value_;
  std::vector<float> state_;
};

}  // namespace paddle::strategy
