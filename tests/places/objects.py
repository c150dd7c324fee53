"""Places that objects and classes have."""

import builtins
import types
from dataclasses import dataclass, field
from typing import Any

from tests.places.table import Holder, module, place, setter


@place
def an_attribute(thing):
    holder = Holder(thing)
    return lambda: holder.kept, setter(holder, "kept")


@place
def a_method(thing):
    holder = Holder(thing)
    return holder.read, setter(holder, "kept")


@place
def a_property(thing):
    holder = Holder(thing)
    return lambda: holder.value, setter(holder, "kept")


@place
def an_object_that_is_called(thing):
    holder = Holder(thing)
    return holder, setter(holder, "kept")


@place
def an_attribute_by_a_name_that_is_made(thing):
    holder, name = Holder(thing), "ke"
    return lambda: getattr(holder, name + "pt"), setter(holder, "kept")


@place
def an_attribute_that_hides_the_class(thing):
    class Own(Holder):
        kept = thing

        def __init__(self):
            pass

    holder = Own()
    return holder.read, setter(holder, "kept")


@place
def a_class_attribute(thing):
    class Own(Holder):
        kept = thing

        def __init__(self):
            pass

    return Own().read, setter(Own, "kept")


@place
def a_class_attribute_of_the_base(thing):
    class Base:
        kept = thing

    class Own(Base):
        pass

    return lambda: Own().kept, setter(Base, "kept")


@place
def a_class_attribute_that_hides_the_base(thing):
    class Base:
        kept = thing

    class Own(Base):
        pass

    return lambda: Own.kept, setter(Own, "kept")


@place
def a_class_method(thing):
    class Own:
        kept = thing

        @classmethod
        def read(cls):
            return cls.kept

    return Own.read, setter(Own, "kept")


@place
def a_static_method(thing):
    m = module("class Own:\n    @staticmethod\n    def read(): return kept", kept=thing)
    return lambda: m.Own.read(), setter(m, "kept")


@place
def an_attribute_of_a_metaclass(thing):
    class Meta(type):
        pass

    class Own(metaclass=Meta):
        pass

    Meta.kept = thing
    return lambda: Own.kept, setter(Meta, "kept")


@place
def a_method_that_is_replaced(thing):
    class Own:
        def read(self):
            return thing

    own = Own()
    return lambda: own.read(), lambda new: setattr(Own, "read", lambda self: new)


@place
def a_method_of_an_operator_that_is_replaced(thing):
    class Own:
        def __call__(self):
            return thing

        def __getitem__(self, i):
            return self()

    own = Own()
    return lambda: own[0], lambda new: setattr(Own, "__getitem__", lambda self, i: new)


@place
def the_class_of_an_object(thing):
    def kind(value):
        class Own:
            def read(self):
                return value

        return Own

    own = kind(thing)()
    return lambda: own.read(), lambda new: setattr(own, "__class__", kind(new))


@place
def a_slot(thing):
    class Own:
        __slots__ = ("kept",)

    own = Own()
    own.kept = thing
    return lambda: own.kept, setter(own, "kept")


@place
def an_attribute_by___getattr__(thing):
    class Own:
        def __init__(self):
            self._kept = {"rate": thing}

        def __getattr__(self, name):
            return self.__dict__["_kept"][name]

    own = Own()
    return lambda: own.rate, lambda new: own._kept.update(rate=new)


@place
def a_descriptor(thing):
    class Kept:
        def __get__(self, obj, kind=None):
            return self.kept

    class Own:
        rate = Kept()

    vars(Own)["rate"].kept = thing
    return lambda: Own().rate, setter(vars(Own)["rate"], "kept")


@place
def a_dataclass(thing):
    @dataclass
    class Config:
        kept: Any
        more: list = field(default_factory=list)

    config = Config(thing)
    return lambda: config.kept, setter(config, "kept")


@place
def a_frozen_dataclass_with_a_dict(thing):
    @dataclass(frozen=True)
    class Config:
        kept: dict

    config = Config({"rate": thing})
    return lambda: config.kept["rate"], lambda new: config.kept.update(rate=new)


@place
def a_namespace(thing):
    config = types.SimpleNamespace(optimiser=types.SimpleNamespace(rate=thing))
    return lambda: config.optimiser.rate, setter(config.optimiser, "rate")


@place
def an_object_that_says_itself_what_it_is(thing):
    kept = {"rate": thing}

    class Own:
        def __getattribute__(self, name):
            return kept[name]

    holder = Holder([Own()])
    return lambda: holder.kept[0].rate, lambda new: kept.update(rate=new)


@place
def an_object_that_refuses_to_be_compared(thing):
    class Own:
        __hash__ = None

        def refuse(self, *_):
            raise RuntimeError("not for you")

        __eq__ = __bool__ = __len__ = __iter__ = __repr__ = refuse

    holder = Holder(Own())
    holder.kept.rate = thing
    return lambda: holder.kept.rate, lambda new: setattr(holder.kept, "rate", new)


@place
def an_attribute_of_text(thing):
    class Name(str):
        pass

    name = Name("own")
    name.rate = thing
    return lambda: name.rate, setter(name, "rate")


@place
def an_attribute_of_a_number(thing):
    class Size(int):
        pass

    size = Size(3)
    size.rate = thing
    return lambda: size.rate, setter(size, "rate")


@place
def a_name_that_was_added_to_those_of_python(thing):
    def put(new):
        builtins.added_rate = new

    put(thing)
    return lambda: added_rate, put  # noqa: F821
