# A stand-in for onnxruntime on systems without it, such as Debian 12: it checks a model with the package onnx, and runs it
# with numpy, node by node as ONNX's operators are described. It knows those that `paddle export --format=onnx` writes.
import math

import numpy
import onnx
import onnx.checker
import onnx.numpy_helper
import onnx.shape_inference

__version__ = "of tests/support/onnx/standin"

TYPES = {onnx.TensorProto.FLOAT: numpy.float32, onnx.TensorProto.INT64: numpy.int64,
         onnx.TensorProto.DOUBLE: numpy.float64}


def softmax(x, axis):
    e = numpy.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def over(axes):
    return tuple(int(axis) for axis in axes)


def reshape(x, shape):
    return x.reshape([x.shape[i] if size == 0 else size for i, size in enumerate(shape)])


def gather(x, at):
    assert ((at >= 0) & (at < x.shape[0])).all(), "an index is out of range"
    return x[at]


def unsqueeze(x, axes):
    return numpy.expand_dims(x, over(axes))


def cut(x, begin, end, axes):
    parts = [slice(None)] * x.ndim
    for i, axis in enumerate(axes):
        parts[axis] = slice(begin[i], end[i])
    return x[tuple(parts)]


OPERATORS = {
    "Abs": numpy.abs,
    "Add": lambda a, b: a + b,
    "Cast": lambda x, to: x.astype(TYPES[to]),
    "Concat": lambda *parts, axis: numpy.concatenate(parts, axis),
    "Div": lambda a, b: a / b,
    "Equal": lambda a, b: a == b,
    "Erf": numpy.vectorize(math.erf, otypes=[numpy.float32]),
    "Gather": gather,
    "GreaterOrEqual": lambda a, b: a >= b,
    "Identity": lambda x: x,
    "IsNaN": numpy.isnan,
    "Less": lambda a, b: a < b,
    "Log": numpy.log,
    "MatMul": lambda a, b: a @ b,
    "Max": numpy.maximum,
    "Mul": lambda a, b: a * b,
    "Not": lambda x: ~x,
    "Pad": lambda x, pads: numpy.pad(x, list(zip(pads[:x.ndim], pads[x.ndim:]))),
    "ReduceMean": lambda x, axes: x.mean(axis=over(axes), keepdims=True),
    "ReduceSum": lambda x, axes, keepdims: x.sum(axis=over(axes), keepdims=bool(keepdims)),
    "Relu": lambda x: numpy.maximum(x, 0),
    "Reshape": reshape,
    "Sigmoid": lambda x: 1 / (1 + numpy.exp(-x)),
    "Sign": numpy.sign,
    "Slice": cut,
    "Softmax": softmax,
    "Sqrt": numpy.sqrt,
    "Sub": lambda a, b: a - b,
    "Tanh": numpy.tanh,
    "Unsqueeze": unsqueeze,
    "Where": numpy.where,
}


class InferenceSession:
    def __init__(self, path):
        model = onnx.load(path)
        onnx.checker.check_model(model, full_check=True)
        self.graph = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True).graph
        self.constants = {each.name: onnx.numpy_helper.to_array(each) for each in self.graph.initializer}

    def get_inputs(self):
        return self.graph.input

    def run(self, outputs, feeds):
        self.check(feeds)
        values = {**self.constants, **feeds}
        for node in self.graph.node:
            attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
            made = OPERATORS[node.op_type](*(values[name] for name in node.input), **attributes)
            values[node.output[0]] = made
        for each in self.graph.output:
            assert values[each.name].dtype == TYPES[each.type.tensor_type.elem_type], each.name
        return [values[each.name] for each in self.graph.output if outputs is None or each.name in outputs]

    def check(self, feeds):
        assert set(feeds) == {each.name for each in self.graph.input}, set(feeds)
        sizes = {}
        for each in self.graph.input:
            tensor = each.type.tensor_type
            given = feeds[each.name]
            assert given.dtype == TYPES[tensor.elem_type], (each.name, given.dtype)
            assert given.ndim == len(tensor.shape.dim), (each.name, given.shape)
            for dim, size in zip(tensor.shape.dim, given.shape):
                wanted = sizes.setdefault(dim.dim_param, size) if dim.dim_param else dim.dim_value
                assert size == wanted, (each.name, given.shape)
