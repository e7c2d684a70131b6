def area(width, height):
    return width * height


print("nothing to see")
