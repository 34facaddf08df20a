#include "engine/sidecar/reader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/version.h"
#include "engine/client/row_reader.h"
#include "engine/math/allocator.h"
#include "engine/model/parameters.h"
#include "engine/table/parameter_set.h"

namespace paddle::sidecar {
namespace {

Status check_code(const std::string& code) {
  if (code.empty()) return {};
  return Error{Errc::kUsage, "a reader has the tables of its snapshot or job, and takes no others",
               "join the job to train tables from code"};
}

std::vector<TableShape> shapes_of(const std::vector<wire::ParameterSpec>& tables) {
  std::vector<TableShape> shapes;
  for (const wire::ParameterSpec& spec : tables)
    shapes.push_back({spec.name(), parameter::row_width(spec)});
  return shapes;
}

class SnapshotRows final : public Session {
 public:
  explicit SnapshotRows(OpenSnapshot open) : open_(std::move(open)) {}

  Result<JsonObject> hello(const std::string& code) override {
    PADDLE_TRY_STATUS(check_code(code));
    PADDLE_TRY(const snapshot::SnapshotReader snapshot, open_());
    std::vector<wire::ParameterSpec> specs = snapshot.parameters();
    std::erase_if(specs, [](const wire::ParameterSpec& spec) { return !spec.sparse(); });
    if (specs.empty()) {
      return Error{Errc::kUsage, fmt::format("snapshot {} has no table", snapshot.directory()),
                   "paddle export --snapshot=DIR --format=npz writes its dense parameters"};
    }
    PADDLE_TRY(auto loaded, inference::Parameters::load(snapshot, specs, parameter_memory_bytes()));
    parameters_ = std::move(loaded);
    tables_ = shapes_of(specs);
    const snapshot::SnapshotInfo& info = snapshot.info();
    return JsonObject()
        .add("engine", kProgramVersion)
        .add("pass", info.pass)
        .add("step", info.step)
        .add("samples", info.samples);
  }
  std::span<const TableShape> tables() const override { return tables_; }
  Status pull(std::span<client::SparseRows> rows, bool is_test) override {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const table::SparseTable& table = parameters_->table(i);
      const std::span<float> values = rows[i].make_values(table.width());
      if (is_test) {
        table.read_to_test(rows[i].ids, values);
      } else {
        table.read(rows[i].ids, values);
      }
    }
    return {};
  }
  Result<JsonObject> leave() override { return JsonObject(); }
  // Loading is the only call that takes long, and the end of the process ends it.
  void interrupt(const Error& /*why*/) override {}

 private:
  OpenSnapshot open_;
  std::vector<TableShape> tables_;
  std::optional<inference::Parameters> parameters_;
};

class JobRows final : public Session {
 public:
  explicit JobRows(client::ConnectOptions options) : reader_(std::move(options)) {}

  Result<JsonObject> hello(const std::string& code) override {
    PADDLE_TRY_STATUS(check_code(code));
    PADDLE_TRY_STATUS(reader_.connect());
    parameters_.clear();
    std::vector<wire::ParameterSpec> specs;
    const wire::ParameterSet& set = reader_.parameters();
    for (int i = 0; i < set.parameters_size(); ++i) {
      if (!set.parameters(i).sparse()) continue;
      specs.push_back(set.parameters(i));
      parameters_.push_back(static_cast<std::uint32_t>(i));
    }
    tables_ = shapes_of(specs);
    return JsonObject()
        .add("engine", kProgramVersion)
        .add("pass", reader_.passes_finished())
        .add("step", reader_.step());
  }
  std::span<const TableShape> tables() const override { return tables_; }
  Status pull(std::span<client::SparseRows> rows, bool is_test) override {
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].parameter = parameters_[i];
    using Reads = client::SparseChannel::Reads;
    return reader_.pull(rows, is_test ? Reads::kToTest : Reads::kToTrain);
  }
  Result<JsonObject> leave() override { return JsonObject(); }
  void interrupt(const Error& why) override { reader_.interrupt(why); }
  std::string waiting() const override { return reader_.waiting_for(); }

 private:
  client::RowReader reader_;
  std::vector<TableShape> tables_;
  std::vector<std::uint32_t> parameters_;  // index of each table in the job's parameters
};

}  // namespace

std::unique_ptr<Session> read_snapshot(OpenSnapshot open) {
  return std::make_unique<SnapshotRows>(std::move(open));
}

std::unique_ptr<Session> read_job(client::ConnectOptions options) {
  return std::make_unique<JobRows>(std::move(options));
}

}  // namespace paddle::sidecar
