#include "engine/model/onnx_graph.h"

#include <gtest/gtest.h>

namespace paddle::onnx {
namespace {

TEST(GraphTest, EqualNodesAndConstantsAreOne) {
  Graph graph({"x"});
  const std::vector<Dimension> shape{Dimension(kRecords), Dimension(3)};
  const Value x = graph.input("x", wire::onnx::TensorProto::FLOAT, shape);
  EXPECT_EQ(graph.input("x", wire::onnx::TensorProto::FLOAT, shape), x);
  graph.set_scope("one");
  const Value sum = graph.node("Add", {x, graph.scalar(1.0F)});
  graph.set_scope("two");
  EXPECT_EQ(graph.node("Add", {x, graph.scalar(1.0F)}), sum);
  EXPECT_NE(graph.node("Mul", {x, graph.scalar(1.0F)}), sum);
  EXPECT_NE(graph.node("Softmax", {x}, {{"axis", 1}}), graph.node("Softmax", {x}, {{"axis", 0}}));
  // A number and a list of one number differ in shape, and a float from an integer of its bytes.
  EXPECT_NE(graph.scalar(std::int64_t{1}), graph.list({1}));
  EXPECT_NE(graph.scalar(0.0F), graph.scalar(std::int64_t{0}));

  const wire::onnx::GraphProto made = graph.take();
  EXPECT_EQ(made.input_size(), 1);
  EXPECT_EQ(made.node_size(), 4);
  EXPECT_EQ(made.node(0).output(0), "one/Add");
  EXPECT_EQ(made.input(0).type().tensor_type().shape().dim(0).dim_param(), "records");
  EXPECT_EQ(made.input(0).type().tensor_type().shape().dim(1).dim_value(), 3);
}

TEST(GraphTest, NoTwoValuesHaveOneName) {
  Graph graph({"_fc.w0", "a/Relu"});
  EXPECT_EQ(graph.take_name("score"), "score");
  EXPECT_EQ(graph.take_name("score"), "score_2");
  EXPECT_EQ(graph.take_name("score"), "score_3");
  EXPECT_EQ(graph.take_name("_fc.w0"), "_fc.w0_2") << "a slot has that name";
  graph.set_scope("a");
  EXPECT_EQ(graph.node("Relu", {"score"}), "a/Relu_2");
}

}  // namespace
}  // namespace paddle::onnx
