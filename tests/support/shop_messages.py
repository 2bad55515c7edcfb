"""Message classes of Protobuf, of two files, one of which imports the other."""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2


def messages() -> dict[str, Any]:
    """Classes of two files: `Basket` of one imports the other, and has `Basket.Inner.Innermost` in it."""
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    fruit = descriptor_pb2.FileDescriptorProto(name="fruit.proto", package="shop", syntax="proto3")
    fruit.message_type.add(name="Fruit").field.add(name="weight", number=1, type=5, label=1)
    basket = descriptor_pb2.FileDescriptorProto(
        name="basket.proto", package="shop", syntax="proto3",
        dependency=["fruit.proto", "google/protobuf/timestamp.proto"],
    )  # fmt: skip
    basket.message_type.add(name="Other")
    one = basket.message_type.add(name="Basket")
    one.field.add(name="fruit", number=1, type=11, label=3, type_name=".shop.Fruit")
    one.field.add(name="at", number=2, type=11, label=1, type_name=".google.protobuf.Timestamp")
    for number in range(70):
        one.nested_type.add(name=f"Empty{number}")
    inner = one.nested_type.add(name="Inner").nested_type.add(name="Innermost")
    inner.field.add(name="text", number=1, type=9, label=1)
    pool.Add(fruit) if hasattr(pool, "Add") else pool.AddSerializedFile(fruit.SerializeToString())
    pool.Add(basket) if hasattr(pool, "Add") else pool.AddSerializedFile(basket.SerializeToString())
    return {
        name.rpartition(".")[2]: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}"))
        for name in ("Fruit", "Other", "Basket", "Basket.Inner.Innermost")
    }
