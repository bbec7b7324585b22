import logging

# it warns of whatever is tried again, on stderr where no handler wants it: who tries again says what there is to say
logging.getLogger("stamina").addHandler(logging.NullHandler())
