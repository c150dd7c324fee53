"""Places that containers have, and what holds or makes other things: partial applications, caches, iterators."""

import contextvars
import functools
import threading
import weakref
from collections import ChainMap, OrderedDict, UserDict, defaultdict, deque, namedtuple

from tests.places.table import Holder, module, place, setter


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


@place
def what_a_cache_remembers(thing):
    read = functools.cache(lambda: {"rate": thing})
    read()
    return lambda: read()["rate"], lambda new: read().update(rate=new)


@place
def what_a_cache_with_a_bound_remembers(thing):
    read = functools.lru_cache(maxsize=2)(lambda key: {"rate": thing})
    read(1)
    return lambda: read(1)["rate"], lambda new: read(1).update(rate=new)


@place
def a_cache_that_is_emptied_before_the_call(thing):
    """A change counts from when the cache is emptied, and filled again by others."""
    holder = Holder(thing)
    read = functools.cache(lambda: holder.kept)
    read()

    def put(new):
        holder.kept = new
        read.cache_clear()
        read()

    return lambda: read(), put


@place
def the_state_of_a_partial(thing):
    take = functools.partial(lambda kept: kept, thing)
    return lambda: take(), lambda new: take.__setstate__((take.func, (new,), {}, {}))
