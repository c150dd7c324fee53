"""Where programs keep what they read: each place holds a thing, gives it back inside of a program, and can be changed.

`PLACES` maps names to makers: `make(thing)` gives `read`, a function as a user writes it, and `put`, which changes the
place as people change it between two steps of a training loop.
"""

import contextvars
import functools
import sys
import threading
import types
import weakref
from collections import ChainMap, OrderedDict, UserDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

type Place = tuple[Callable[[], Any], Callable[[Any], None]]
PLACES: dict[str, Callable[[Any], Place]] = {}


def place(make):
    """Puts a maker into the table."""
    PLACES[make.__name__] = make
    return make


def module(source: str, **variables: Any) -> types.ModuleType:
    """A module of the user's with this source."""
    made = types.ModuleType("written")
    made.__dict__.update(variables)
    exec(source, made.__dict__)
    return made


def setter(owner: Any, name: str) -> Callable[[Any], None]:
    """A function that sets an attribute."""
    return lambda thing: setattr(owner, name, thing)


@place
def a_global(thing):
    m = module("def read(): return kept", kept=thing)
    return m.read, setter(m, "kept")


@place
def a_global_through_helpers(thing):
    m = module("def inner(): return kept\ndef outer(f=inner): return f()\ndef read(): return outer()", kept=thing)
    return m.read, setter(m, "kept")


@place
def a_variable_of_another_module(thing):
    config = types.ModuleType("config")
    config.rate = thing
    return lambda: config.rate, setter(config, "rate")


@place
def a_module_by_getattr(thing):
    config = types.ModuleType("config")
    config.rate = thing
    return module("def read(): return getattr(config, 'rate')", config=config).read, setter(config, "rate")


@place
def a_module_by_a_name_that_is_made(thing):
    config = types.ModuleType("config")
    config.rate = thing
    m = module("def read(): return getattr(config, 'ra' + suffix)", config=config, suffix="te")
    return m.read, setter(config, "rate")


@place
def a_module_that_is_imported_inside(thing):
    name = f"imported_inside_{id(thing)}_{len(sys.modules)}"
    config = sys.modules[name] = types.ModuleType(name)
    config.rate = thing
    return module(f"def read():\n    from {name} import rate\n    return rate").read, setter(config, "rate")


@place
def globals_by_name(thing):
    m = module("def read(): return globals()['kept']", kept=thing)
    return m.read, setter(m, "kept")


@place
def a_cell(thing):
    def put(new):
        nonlocal thing
        thing = new

    return lambda: thing, put


@place
def a_default(thing):
    def read(kept=thing):
        return kept

    return read, lambda new: setattr(read, "__defaults__", (new,))


@place
def a_keyword_default(thing):
    def read(*, kept=thing):
        return kept

    return lambda: read(), lambda new: read.__kwdefaults__.update(kept=new)


@place
def keyword_defaults_that_are_replaced(thing):
    def read(*, kept=thing):
        return kept

    return lambda: read(), lambda new: setattr(read, "__kwdefaults__", {"kept": new})


@place
def an_attribute_of_the_function(thing):
    def read():
        return read.kept

    read.kept = thing
    return read, setter(read, "kept")


@place
def an_attribute_of_a_function_that_does_not_run(thing):
    def settings(): ...

    settings.kept = thing
    return lambda: settings.kept, setter(settings, "kept")


@place
def the_code_of_a_function(thing):
    def one():
        return one.kept

    def two():
        return one.other

    one.kept = thing
    first = one.__code__

    def put(new):
        if one.__code__ is first:
            one.other, one.__code__ = new, two.__code__
        else:
            one.kept, one.__code__ = new, first

    return lambda: one(), put


class Holder:
    """What most objects are."""

    def __init__(self, kept: Any):
        self.kept = kept

    def read(self) -> Any:
        return self.kept

    @property
    def value(self) -> Any:
        return self.kept

    def __call__(self) -> Any:
        return self.kept

    def first(self) -> Any:
        return self.kept[0]()


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
def a_dict(thing):
    kept = {"rate": thing}
    return lambda: kept["rate"], lambda new: kept.update(rate=new)


@place
def a_dict_that_grows(thing):
    kept = {0: thing}
    return lambda: kept[len(kept) - 1], lambda new: kept.update({len(kept): new})


@place
def the_order_of_a_dict(thing):
    kept = OrderedDict(first=thing, last=thing)

    def put(new):
        other = next(reversed(kept))
        dict.__setitem__(kept, other, new)
        kept.move_to_end(other, last=False)

    return lambda: next(iter(kept.values())), put


@place
def a_list(thing):
    kept = [thing]
    return lambda: kept[-1], lambda new: kept.append(new)


@place
def a_list_that_shrinks(thing):
    kept = [thing, thing]

    def put(new):
        kept.insert(0, new)
        del kept[1:]

    return lambda: kept[0], put


@place
def a_tuple_of_lists(thing):
    kept = ([thing], 1)
    return lambda: kept[0][0], lambda new: kept[0].__setitem__(0, new)


@place
def a_named_tuple(thing):
    Config = namedtuple("Config", "rate steps")
    m = module("def read(): return config.rate", config=Config(thing, 3))
    return m.read, lambda new: setattr(m, "config", m.config._replace(rate=new))


@place
def other_containers(thing):
    kept = ChainMap({}, {"rate": UserDict(rate=deque([defaultdict(list, rate=thing)]))})
    return lambda: kept["rate"]["rate"][0]["rate"], lambda new: kept["rate"]["rate"].appendleft({"rate": new})


@place
def a_partial(thing):
    take = functools.partial(lambda kept, rate: kept[rate], rate="rate")
    kept = {"rate": thing}
    whole = functools.partial(take, kept)
    return whole, lambda new: kept.update(rate=new)


@place
def the_keywords_of_a_partial(thing):
    take = functools.partial(lambda rate: rate, rate=thing)
    return lambda: take(), lambda new: take.keywords.update(rate=new)


@place
def a_decorated_function(thing):
    holder = Holder(thing)

    def decorate(f):
        @functools.wraps(f)
        def inner(*arguments):
            return f(*arguments)

        return inner

    @decorate
    def read():
        return holder.kept

    return read, setter(holder, "kept")


@place
def a_function_with_a_cache(thing):
    holder = Holder(thing)

    @functools.lru_cache
    def read():
        return holder.kept

    def put(new):
        holder.kept = new
        read.cache_clear()

    return lambda: read(), put


@place
def a_weak_reference(thing):
    holder = Holder(thing)
    ref, kept = weakref.ref(holder), [holder]
    return lambda: ref().kept, setter(kept[0], "kept")


@place
def a_context_variable(thing):
    variable = contextvars.ContextVar("rate", default=thing)
    return variable.get, variable.set


@place
def a_thread_local(thing):
    local = threading.local()
    local.rate = thing
    return lambda: local.rate, setter(local, "rate")


@place
def an_iterator(thing):
    coming = [thing] * 2
    source = iter(lambda: coming[-1], None)
    return lambda: next(source), lambda new: coming.append(new)


@place
def a_generator(thing):
    coming = [thing]

    def give():
        while True:
            yield coming[-1]

    source = give()
    return lambda: next(source), lambda new: coming.append(new)


@place
def a_view_of_a_dict(thing):
    kept = {"rate": thing}
    values = kept.values()
    return lambda: next(iter(values)), lambda new: kept.update(rate=new)
