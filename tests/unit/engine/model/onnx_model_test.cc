#include "engine/model/onnx_model.h"

#include "proto/onnx.pb.h"
#include "tests/unit/engine/snapshot/snapshot_fixture.h"

namespace paddle::onnx {
namespace {

// A job whose network reads both parameters of the fixture's snapshot.
config::JobConfig job() {
  config::JobConfig job;
  job.data.format = "multislot";
  job.data.slots = {{.name = "id"}, {.name = "label"}};
  config::LayerConfig rows;
  rows.name = "rows";
  rows.type = "embedding";
  rows.inputs = {"id"};
  rows.size = 3;
  rows.weight.name = "my table";
  rows.weight.sparse = true;
  rows.weight.initial_std = 0;
  rows.weight.initial_mean = 0.25F;
  config::LayerConfig norm;
  norm.name = "fc";
  norm.type = "fc";
  norm.inputs = {"rows"};
  norm.size = 2;
  norm.weight.name = "missing";
  config::LayerConfig cost;
  cost.name = "cost";
  cost.type = "softmax_cross_entropy";
  cost.inputs = {"fc"};
  cost.label = "label";
  job.layers = {rows, norm, cost};
  return job;
}

class NetworkModelTest : public snapshot::SnapshotTest {
 protected:
  // A model of the layer of rows alone: the snapshot lacks the weight of the next one.
  Result<std::string> model(config::JobConfig job, std::uint64_t bytes_max = kModelBytesMax) {
    job.layers.erase(job.layers.begin() + 1);
    job.layers.back().inputs = {"rows"};
    PADDLE_TRY(const auto reader, snapshot::SnapshotReader::open(directory_));
    return network_model(reader, job, {.layer = "rows", .scratch = root_, .bytes_max = bytes_max});
  }
};

template <class T>
std::vector<T> values_of(const wire::onnx::GraphProto& graph, const std::string& name) {
  for (const auto& tensor : graph.initializer()) {
    if (tensor.name() != name) continue;
    std::vector<T> values(tensor.raw_data().size() / sizeof(T));
    std::memcpy(values.data(), tensor.raw_data().data(), tensor.raw_data().size());
    return values;
  }
  ADD_FAILURE() << "there is no " << name;
  return {};
}

TEST_F(NetworkModelTest, ATableHasItsIdsInSignedOrderAndARowForAbsentOnes) {
  write();
  const auto bytes = model(job());
  ASSERT_TRUE(bytes) << bytes.error().message;
  wire::onnx::ModelProto read;
  ASSERT_TRUE(read.ParseFromString(*bytes));
  EXPECT_EQ(read.ir_version(), 7);
  EXPECT_EQ(read.opset_import(0).version(), 13);
  EXPECT_EQ(values_of<std::int64_t>(read.graph(), "my table.ids"),
            (std::vector<std::int64_t>{-1, 0, INT64_MAX}));
  EXPECT_EQ(values_of<float>(read.graph(), "my table.values"),
            (std::vector<float>{-1, 0, 1e-30F, 1, 2, 3, 0.25F, 0.25F, 0.25F}));
  ASSERT_EQ(read.graph().output_size(), 1);
  EXPECT_EQ(read.graph().output(0).name(), "values");
  EXPECT_EQ(*model(job()), *bytes) << "the same bytes every time";
}

TEST_F(NetworkModelTest, AnIdThatWaitsForItsAdmissionReadsAsZeros) {
  write();
  config::JobConfig waiting = job();
  waiting.layers[0].weight.table.set_entry_count(2);
  wire::onnx::ModelProto read;
  ASSERT_TRUE(read.ParseFromString(*model(waiting)));
  EXPECT_EQ(values_of<float>(read.graph(), "my table.values").back(), 0);
}

TEST_F(NetworkModelTest, MoreBytesThanAFileMayHaveAreRefused) {
  write();
  const auto refused = model(job(), 16U << 20U);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kResource);
  EXPECT_NE(refused.error().message.find("but an ONNX file has at most 16777216"),
            std::string::npos)
      << refused.error().message;
  EXPECT_NE(refused.error().hint.find("--format=npz"), std::string::npos);
}

TEST_F(NetworkModelTest, ASnapshotOfAnotherNetworkIsRefused) {
  write();
  const auto reader = snapshot::SnapshotReader::open(directory_);
  const auto refused = network_model(*reader, job(), {.layer = "", .scratch = root_});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kData);
  EXPECT_NE(refused.error().message.find("parameter 'missing' is missing"), std::string::npos)
      << refused.error().message;
}

}  // namespace
}  // namespace paddle::onnx
