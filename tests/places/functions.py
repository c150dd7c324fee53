"""Places that functions and modules have."""

import sys
import types

from tests.places.table import module, place, setter


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


@place
def a_module_that_is_replaced_under_an_import(thing):
    def config(kept):
        made = types.ModuleType(name)
        made.rate = kept
        return made

    name = f"replaced_under_an_import_{id(thing)}_{len(sys.modules)}"
    sys.modules[name] = config(thing)
    read = module(f"def read():\n    import {name}\n    return {name}.rate").read
    return read, lambda new: sys.modules.update({name: config(new)})


@place
def a_module_that_comes_to_be(thing):
    name = f"a_module_that_comes_to_be_{id(thing)}_{len(sys.modules)}"
    source = f"def read():\n    try: from {name} import rate\n    except ImportError: return kept\n    return rate"

    def put(new):
        made = sys.modules[name] = types.ModuleType(name)
        made.rate = new

    return module(source, kept=thing).read, put


@place
def a_module_that_answers_by_a_function(thing):
    kept = {"rate": thing}
    config = types.ModuleType("config")
    config.__getattr__ = lambda name: kept[name]
    return lambda: config.rate, lambda new: kept.update(rate=new)
