while True:
    try:
        sum(range(1000))
    except BaseException:
        pass
